#pragma once

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/address_news.h"
#include "dpdk_nic/link_layer/local_gids.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/udp/datagram.h"
#include "dpdk_nic/port/udp/group_memberships.h"
#include "dpdk_nic/port/udp/identification.h"
#include "dpdk_nic/port/udp/receive_batch.h"
#include "dpdk_nic/port/udp/send_batch.h"
#include "dpdk_nic/port/udp/transmit_queue.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "dpdk_nic/port/udp/udp_socket.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// RoCEv2 over plain UDP sockets, one for each address or for all: no privilege, no DPDK, the
// kernel's routes and neighbours. It carries packets without headers. It corrects what a socket
// decides itself: the UDP source port is the socket's, and the ICRC is that of the packet that the
// kernel sends.
//
// Packets to one destination leave together by one call (TransmitQueue). Frames that the kernel has
// no room for wait; those that it refuses for good are dropped and counted, with a notice once in a
// while. Frames to a multicast group leave by the interface that has their source address.
class UdpPort final : public PacketPort {
 public:
  // `addresses` empty: DefaultAddresses(). `mtu_bytes` 0: that of the interface.
  static ErrorOr<std::unique_ptr<UdpPort>> Open(const std::vector<transport::Gid>& addresses,
                                                uint32_t mtu_bytes);
  // Binds to all addresses of this host, with one socket for each IP version: `addresses` are those
  // that frames may be from, at least one. `mtu_bytes` is not compared with that of an interface.
  static ErrorOr<std::unique_ptr<UdpPort>> OpenWildcard(const std::vector<HostAddress>& addresses,
                                                        uint32_t mtu_bytes);

  // Like OpenWildcard, but beside other processes with the same addresses: sends from UDP ports of
  // its own, and receives by the sockets that it is given (AddReceiver).
  static ErrorOr<std::unique_ptr<UdpPort>> OpenSender(const std::vector<HostAddress>& addresses,
                                                      uint32_t mtu_bytes);

  ReceivedFrame Receive() override;
  void ReleaseReceived() override {}
  transport::FrameRoom AcquireTransmit(transport::Route route) override;
  // The room that was acquired last, with what was built there; until CommitTransmit.
  transport::FrameRoom built() { return queue_.built(); }
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;
  void FlushSoon() override {}

  // Joins on each interface that has an address of the port. kRefused: a notice says why.
  PathState JoinGroup(const transport::Gid& group) override;
  void LeaveGroup(const transport::Gid& group) override;

  int wait_fd() const override { return wait_.get(); }
  bool BeginSleep() override;
  void EndSleep() override { TakeErrors(); }
  void ServeLink() override;
  void AbandonAfterFork() override;
  Notice TakeNotice() override { return std::exchange(notice_, {}); }
  std::optional<std::vector<transport::Gid>> TakeGids() override;

  Counters counters() const override;
  transport::MacAddress mac() const override { return mac_; }
  uint32_t mtu() const override { return mtu_bytes_; }
  bool link_up() const override { return true; }

  // For a port on all addresses of this host: replaces those that frames may be from.
  void SetAddresses(const std::vector<HostAddress>& addresses);
  // For a port with all addresses of this host: no socket here receives what it sends to groups.
  void KeepGroupsFromThisHost();

  // For OpenSender: adds a socket to receive by. False if it cannot be added to wait_fd.
  bool AddReceiver(UdpSocket socket);
  // Closes all receivers, and drops what they have received.
  void DropReceivers();

  const std::vector<UdpSocket>& sockets() const { return sockets_; }
  const std::vector<transport::Gid>& Gids() const { return gids_.gids(); }

 private:
  UdpPort() = default;
  static ErrorOr<std::unique_ptr<UdpPort>> OpenForAll(const std::vector<HostAddress>& addresses,
                                                      uint32_t mtu_bytes, UdpSocket::Use use);
  // Opens a socket for each of these addresses, which may be wildcards.
  std::optional<Error> OpenSockets(const std::vector<HostAddress>& bound, UdpSocket::Use use);
  std::optional<Error> ChooseMtu(uint32_t wished_mtu_bytes);

  const std::vector<UdpSocket>& receiving() const { return only_sends_ ? receivers_ : sockets_; }
  // Counts the sockets of receiving(), then those of groups_; receiver() has the same order.
  size_t receiver_count() const { return receiving().size() + groups_.sockets().size(); }
  const UdpSocket& receiver(size_t index) const;
  bool IsToBeDropped(const DatagramInfo& info);
  bool Watch(const UdpSocket& socket) const;
  std::vector<HostAddress>::const_iterator FindOwn(const transport::Gid& gid) const;
  bool ReceiveFrom(size_t socket);
  bool ReceiveAny();
  void Transmit();
  // Sends as many of the oldest frames as one system call takes. Returns false when the kernel has
  // no room now.
  bool TransmitOnce();
  // The kernel refused the oldest frames, a single message. Returns what TransmitOnce does.
  bool OnRefused(int error, size_t frames);
  void DropRefused(int error, size_t frames);
  bool MaySegment(const transport::Gid& destination) const;
  // The way out of frames from an address of the port.
  struct WayOut {
    const UdpSocket* socket = nullptr;  // none: it is no address of the port
    int interface_index = 0;
  };
  WayOut WayOutOf(const transport::Gid& source) const;
  // udp_port_addresses.cc
  void FollowNews();
  void FollowAddresses();
  void CloseSocketsOfGoneAddresses(const std::vector<HostAddress>& now);
  bool OpenSocketOf(const HostAddress& address);
  void FollowGroups();

  void TakeErrors();
  void TakeErrorsOf(const UdpSocket& socket);
  void LookForOverflow();
  uint64_t CountOverflow() const;
  void Say(const UdpSocket::NetworkError& error);

  std::vector<HostAddress> addresses_;
  LocalGids gids_;
  bool has_new_gids_ = false;
  std::unique_ptr<AddressNews> news_;  // of the host's own addresses; none if some were chosen
  int interface_index_ = 0;            // the interface whose addresses are followed
  std::vector<UdpSocket> sockets_;
  bool only_sends_ = false;  // and receives by receivers_, if there are any
  std::vector<UdpSocket> receivers_;
  GroupMemberships groups_;
  UniqueFd wait_;
  transport::MacAddress mac_{};
  uint32_t mtu_bytes_ = 0;
  uint64_t transmit_malformed_ = 0;
  PortDrops drops_;  // without those that the sockets count

  TransmitQueue queue_;
  SendBatch sends_;
  bool is_blocked_ = false;  // the kernel had no room for the oldest frame
  int retries_ = 0;          // of the oldest frame: its errors may be about other packets
  std::vector<transport::Gid> unsegmented_;  // destinations that UDP_SEGMENT does not work for
  ReceiveBatch batch_;
  DatagramRun run_;
  PeerIdentifications peers_;
  transport::Gid batch_address_;  // bound address of the socket that batch_ came from
  size_t busy_socket_ = 0;        // index of the socket that had frames last
  bool has_just_received_ = false;
  uint32_t empty_receives_ = 0;

  Notice notice_;
  // The error of the last notice, and until when it is not repeated.
  UdpSocket::NetworkError said_;
  transport::Time said_until_;
  transport::Time next_look_for_overflow_;
  bool told_of_overflow_ = false;
};

}  // namespace uroce::nic
