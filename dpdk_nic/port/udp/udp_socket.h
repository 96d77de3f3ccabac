#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// A kernel UDP socket of one address of this host, or of all of an IP version: then every message
// says which one it is from or came to. Unconnected and never fragmenting, so that the kernel
// numbers IPv4 packets as TransmitQueue counts on. Needs no privilege.
class UdpSocket {
 public:
  // What is received and not taken yet, and sent and not gone yet. The kernel grants as much as
  // net.core.rmem_max and wmem_max let it, unless we have CAP_NET_ADMIN.
  static constexpr int kBufferBytes = 4 << 20;

  enum class Use : uint8_t {
    kAll,      // sends from port 4791 and receives there, as its only owner
    kSending,  // sends from a port of its own, so that what ICMP says of it comes to no other
               // socket; receives nothing
    // As kAll, and then the first of a SO_REUSEPORT group that others can be added to; and another
    // one of that group, by the same user.
    kFirstOfGroup,
    kMemberOfGroup,
    // Receives what is sent to a multicast group, which is its address, on the interfaces that it
    // joins it on. Others of this host may have it, too.
    kMulticast,
  };
  // `address` may be a wildcard.
  static ErrorOr<UdpSocket> Open(const HostAddress& address, Use use = Use::kAll);

  // Takes a socket that another process has opened. nullopt, and it is closed, if it is none that
  // receives RoCEv2.
  static std::optional<UdpSocket> Adopt(UniqueFd fd);

  const HostAddress& address() const { return address_; }
  const transport::Gid& gid() const { return address_.gid; }
  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }

  // What the kernel granted of kBufferBytes.
  int receive_buffer_bytes() const { return receive_buffer_bytes_; }
  // How many messages found no room there since the socket was opened. One may be many datagrams,
  // where the kernel has joined them already (UDP_GRO).
  uint32_t CountOverflow() const;

  // What the socket sends to multicast groups does not come back to sockets of this host.
  void KeepGroupsFromThisHost() const;

  // An error that the network told of (ICMP), or the kernel in place of the network.
  struct NetworkError {
    transport::Gid destination;  // of the packet that it is about
    int error = 0;               // an errno value
    uint32_t mtu_bytes = 0;      // of the path, with EMSGSIZE
  };
  // One by one; nullopt when there is none left.
  std::optional<NetworkError> TakeError() const;

  // In a forked child: only async-signal-safe calls.
  void Close() { fd_.reset(); }

 private:
  UdpSocket(UniqueFd fd, const HostAddress& address);

  UniqueFd fd_;
  HostAddress address_;
  uint16_t port_ = 0;
  int receive_buffer_bytes_ = 0;
};

// What went wrong on the way to `error.destination`, as a sentence that says what to do, without
// full stop.
std::string Explain(const UdpSocket::NetworkError& error);
// The same of frames to `own` that found no room in a receive buffer of so many bytes; empty if it
// is as large as we want it.
std::string ExplainOverflow(const transport::Gid& own, int receive_buffer_bytes);

}  // namespace uroce::nic
