#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// A kernel UDP socket on one address of this host, or on all of an IP version: there every message
// names the address that it is from or came to. Unconnected and never fragmenting, so that the
// kernel numbers IPv4 packets as TransmitQueue counts on. Needs no privilege.
class UdpSocket {
 public:
  // Bytes of each buffer, for receiving and for sending. The kernel grants at most
  // net.core.rmem_max (any size with CAP_NET_ADMIN) and net.core.wmem_max.
  static constexpr int kBufferBytes = 4 << 20;

  enum class Use : uint8_t {
    kAll,      // sends from port 4791 and receives there, as its only owner
    kSending,  // sends from a port of its own, so that ICMP errors about its packets come to no
               // other socket; receives nothing
    // kFirstOfGroup: as kAll, then becomes the first of a SO_REUSEPORT group that other sockets can
    // join. kMemberOfGroup: another socket of that group, by the same user.
    kFirstOfGroup,
    kMemberOfGroup,
    // As kFirstOfGroup, but joins a group that a uroced of the same user has left behind: stopped
    // processes still have sockets of it.
    kOrphanedGroup,
    // Bound to a multicast group, receives what is sent to it on the interfaces where it joins.
    // Other sockets of this host may be bound to the group, too.
    kMulticast,
  };
  // `address` may be a wildcard.
  static ErrorOr<UdpSocket> Open(const HostAddress& address, Use use = Use::kAll);

  // Takes a socket that another process has opened. nullopt, and the socket is closed, if it does
  // not receive RoCEv2.
  static std::optional<UdpSocket> Adopt(UniqueFd fd);

  const HostAddress& address() const { return address_; }
  const transport::Gid& gid() const { return address_.gid; }
  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }
  // How many sockets its group had before (kOrphanedGroup).
  size_t sockets_before() const { return sockets_before_; }

  // The receive buffer that the kernel granted, of kBufferBytes.
  int receive_buffer_bytes() const { return receive_buffer_bytes_; }
  // How many messages found no room in the receive buffer since the socket was opened. One may be
  // many datagrams, if the kernel has joined them already (UDP_GRO).
  uint32_t CountOverflow() const;

  // From now on what the socket sends to multicast groups reaches no socket of this host.
  void KeepGroupsFromThisHost() const;

  // An error that the network reported (ICMP), or the kernel in place of the network.
  struct NetworkError {
    transport::Gid destination;  // of the packet that it is about
    int error = 0;               // an errno value
    uint32_t mtu_bytes = 0;      // of the path, with EMSGSIZE
    // The host that reported the error (zero: unknown), and whether that was ICMP time exceeded, or
    // a firewall on the way.
    transport::Gid reporter{};
    enum class Cause : uint8_t { kOther, kTimeExceeded, kProhibited } cause = Cause::kOther;
  };
  // The next error; nullopt when there is none left.
  std::optional<NetworkError> TakeError() const;

  // In a forked child: only async-signal-safe calls.
  void Close() { fd_.reset(); }

 private:
  UdpSocket(UniqueFd fd, const HostAddress& address);
  static ErrorOr<UdpSocket> JoinOrphanedGroup(const HostAddress& address);

  UniqueFd fd_;
  HostAddress address_;
  uint16_t port_ = 0;
  size_t sockets_before_ = 0;
  int receive_buffer_bytes_ = 0;
};

// Explains an error on the way to `error.destination`, as a sentence that says what to do, without
// full stop.
std::string Explain(const UdpSocket::NetworkError& error);
// The same for frames to `own` that found no room in a receive buffer of so many bytes; empty if
// the buffer has kBufferBytes.
std::string ExplainOverflow(const transport::Gid& own, int receive_buffer_bytes);

}  // namespace uroce::nic
