#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/address_news.h"
#include "dpdk_nic/link_layer/local_gids.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/socket_sharing.h"
#include "dpdk_nic/port/udp/kernel_route.h"
#include "dpdk_nic/port/udp/socket_group.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "dpdk_nic/port/udp/udp_port.h"
#include "transport/ids.h"
#include "transport/time.h"
#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// The way out of the host for a fabric that was given none: a UdpPort on all addresses of the host.
// It opens when the first host beyond this one is named, and not before. So a fabric whose
// processes talk only to each other listens nowhere.
//
//            PreparePath, JoinGroup, or a frame to the network
//   closed -----------------------------------------> open
//      ^                     | port 4791 is taken
//      +---------------------+
//
// It follows addresses of the host that come and go, but for the first of an IP version that the
// host did not have when the port was opened. Groups that are joined while it is closed are joined
// in the kernel when it opens.
//
// With `shares_sockets` each process of the fabric gets sockets of its own (SocketGroup), and keeps
// them if uroced ends. The next uroced cannot bind the port until the processes have closed them:
// so it retries for a moment before it reports that the port is taken, and goes on trying. uroced
// itself then sends from another port: the kernel gives ICMP errors about packets of a SO_REUSEPORT
// group to any of its sockets.
class UdpUplink final : public PacketPort, public SocketSharing {
 public:
  struct Options {
    std::vector<transport::Gid> addresses;  // empty: all that the host has
    uint32_t mtu_bytes = 0;                 // of the fabric; what a path takes may be less
    bool shares_sockets = false;
  };
  // nullptr if the host has no network and no address was chosen: there is no way out of it. An
  // error if a chosen address is not the host's.
  static ErrorOr<std::unique_ptr<UdpUplink>> Create(const Options& options);

  ReceivedFrame Receive() override {
    return port_ ? port_->ReceiveEthernet(received_) : ReceivedFrame{};
  }
  void ReleaseReceived() override { port_->ReleaseReceived(); }
  transport::FrameRoom AcquireTransmit(transport::Route route) override;
  void CommitTransmit(size_t frame_bytes) override;
  void Flush() override;

  // Opens the port, and looks for a route to the host if the path has one. kUnreachable: a notice
  // says why not.
  PathState PreparePath(const Path& path) override;
  uint32_t PathMtu(const Path& path) const override;
  // kPending and kUnreachable: the group will be joined when the port opens.
  PathState JoinGroup(const transport::Gid& group) override;
  void LeaveGroup(const transport::Gid& group) override;
  size_t max_groups() const override;

  int wait_fd() const override { return wait_.get(); }
  bool BeginSleep() override { return !port_ || port_->BeginSleep(); }
  bool keeps_frames() const override {
    return !to_be_left_.empty() || !to_be_joined_.empty() ||
           (is_wanted_ && !port_ && tries_left_ != 0);
  }
  void EndSleep() override;
  void ServeLink() override;
  Notice TakeNotice() override;

  Counters counters() const override;
  std::optional<std::vector<transport::Gid>> TakeGids() override;
  transport::MacAddress mac() const override { return mac_; }
  uint32_t mtu() const override { return mtu_bytes_; }
  bool link_up() const override { return true; }

  const std::vector<transport::Gid>& Gids() const { return gids_.gids(); }
  bool is_open() const { return port_ != nullptr; }

  bool has_sockets() const override { return !groups_.empty(); }
  std::vector<UniqueFd> Share(uint32_t block) override;
  void Unshare(uint32_t block) override;

 private:
  UdpUplink() = default;
  std::optional<Error> Open();
  // Opens the port to reach `remote`. kUnreachable with a notice.
  PathState OpenFor(const transport::Gid& remote);
  ErrorOr<std::unique_ptr<UdpPort>> OpenPort();
  std::optional<Error> OpenGroups(UdpPort* port);
  void OpenForFrame(std::span<const uint8_t> frame);
  KernelRoute RouteTo(const transport::Gid& remote) const;
  void FollowAddresses();
  void ChangeGroups();
  void LeaveNextGroup();
  int interface_index() const { return addresses_.empty() ? 0 : addresses_[0].interface_index; }

  std::vector<HostAddress> addresses_;  // that the host has now
  transport::MacAddress mac_{};
  LocalGids gids_;
  bool has_new_gids_ = false;
  std::unique_ptr<AddressNews> news_;  // of all addresses; none if one was chosen
  bool is_wildcard_ = true;            // no address was chosen
  uint32_t mtu_bytes_ = 0;
  UniqueFd wait_;
  std::unique_ptr<UdpPort> port_;  // none while closed
  bool shares_sockets_ = false;
  std::vector<SocketGroup> groups_;  // one for each socket that the port receives by
  std::set<transport::Gid> joined_;  // groups that are wanted
  // Groups in joined_ that the port is no member of yet.
  std::set<transport::Gid> to_be_joined_;
  // Groups to be left: a process that ends may have had thousands.
  std::set<transport::Gid> to_be_left_;
  bool is_wanted_ = false;  // the port is to be opened as soon as possible
  int tries_left_ = 0;      // before a failure is reported
  std::string why_closed_;  // the error of the last try
  // A host was named, or a frame had to leave, since the failure was last reported to all.
  bool must_tell_ = false;
  Notice notice_;
  // Frames do not try to open the port before this time.
  transport::Time next_open_;
  uint64_t not_sent_ = 0;
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> received_;
  alignas(64) std::array<uint8_t, transport::kMaxFrameBytes> frame_;  // to be sent
};

}  // namespace uroce::nic
