#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/wire_messages.h"
#include "dpdk_nic/link_layer/local_gids.h"
#include "dpdk_nic/port/fabric/fabric_links.h"
#include "dpdk_nic/port/fabric/fabric_requests.h"
#include "dpdk_nic/port/fabric/fabric_wire.h"
#include "dpdk_nic/port/fabric/fabric_xrc_domains.h"
#include "dpdk_nic/port/fabric/link_thread.h"
#include "dpdk_nic/port/packet_port.h"

namespace uroce::nic {

// A process's port to its fabric: links to the other processes of the host, and one to uroced for
// what goes to the wire, or sockets of its own for that (FabricWire). Needs no privileges.
//
// Once the process is attached, it needs uroced for new links and for the wire only. When uroced is
// gone all other traffic goes on, and the port repeats its requests to the next uroced.
class FabricPort : public PacketPort {
 public:
  struct Options {
    std::string fabric;
    transport::Gid ip;            // of this process, in a fabric without a NIC
    uint32_t mtu_bytes = 0;       // 0: the fabric's
    bool needs_ip = false;        // a fabric with a NIC must have `ip`, too
    int published_state_fd = -1;  // the caller owns it, and keeps it open
    LinkThread::Mode link_thread = LinkThread::Mode::kThread;
    // kWaived: nothing between the engine and the links spoils frames, so links may carry them
    // without ICRC. kWaivedWithHeaders: nor does anything there read their network headers.
    transport::IcrcUse icrc = transport::IcrcUse::kCarried;
  };
  explicit FabricPort(Options options);

  // Makes this process a member of the fabric; the first call to make. Blocks until uroced answers
  // or, for a moment, until there is a uroced, as one may be starting. An error says what to do.
  std::optional<Error> Attach();
  // The properties of the fabric, and the block of this process. Only the addresses change: if a
  // new uroced serves another NIC, this process stays without a wire.
  const control::Welcome& fabric() const { return fabric_; }
  // Whether processes of this host have the address: then no wire leads to it.
  bool IsLocal(const transport::Gid& gid) const;
  // How often the process attached: a new uroced knows nothing of what its predecessor was told.
  uint32_t attachments() const { return client_.attachments(); }

  void BeginReceiveBurst() override {
    links_.BeginReceiveBurst();
    looks_at_wire_ = wire_.is_open() && wire_.IsToBeLookedAt();
    is_turn_of_wire_ = looks_at_wire_ && !is_turn_of_wire_;
  }
  ReceivedFrame Receive() override { return looks_at_wire_ ? ReceiveFromAny() : links_.Receive(); }
  void ReleaseReceived() override {
    if (!std::exchange(is_received_from_wire_, false)) links_.Release();
  }
  transport::FrameRoom AcquireTransmit(transport::Route route) override {
    is_acquired_from_wire_ = wire_.is_open() && route == transport::Route::kWire;
    return is_acquired_from_wire_ ? wire_.Acquire() : links_.Acquire(route);
  }
  void CommitTransmit(size_t frame_bytes) override {
    is_acquired_from_wire_ ? wire_.Commit(frame_bytes) : links_.Commit(frame_bytes);
  }
  bool HasAnswered(transport::Route route, transport::Time sent, transport::Time now) override {
    return links_.HasAnswered(route, sent, now);
  }
  void TellAnswered(transport::Route route) override { links_.TellAnswered(route); }
  std::optional<transport::Route> TakeGonePeer() override { return links_.TakeGonePeer(); }
  void FlushSoon() override { links_.Flush(); }
  void Flush() override {
    links_.Flush();
    if (wire_.is_open()) wire_.Flush();
  }

  PathState PreparePath(const Path& path) override;
  uint32_t PathMtu(const Path& path) const override;
  void ForgetPath(transport::Qpn local) override;
  PathState JoinGroup(const transport::Gid& group) override;
  void LeaveGroup(const transport::Gid& group) override;
  ServiceState ReserveService(const Service& service) override;
  void ReleaseService(const Service& service) override;
  bool IsReleased(const Service& service) const override;
  XrcOpening OpenXrcDomain(const XrcDomain& domain) override { return xrc_domains_.Open(domain); }
  void CloseXrcDomain(uint64_t handle) override { xrc_domains_.Close(handle); }
  bool IsXrcDomainClosed(uint64_t handle) const override { return xrc_domains_.IsClosed(handle); }

  int wait_fd() const override { return epoll_.get(); }
  bool BeginSleep() override {
    return (!wire_.is_open() || wire_.BeginSleep()) && links_.BeginSleep();
  }
  void EndSleep() override;
  void ServeLink() override;
  void BeforeFork() override { links_.BeforeFork(); }
  void AfterForkInParent() override { links_.AfterForkInParent(); }
  void AbandonAfterFork() override;

  Notice TakeNotice() override { return wire_.is_open() ? wire_.TakeNotice() : Notice{}; }
  std::optional<std::vector<transport::Gid>> TakeGids() override;
  Counters counters() const override;
  transport::MacAddress mac() const override;
  uint32_t mtu() const override { return fabric_.mtu_bytes; }
  bool link_up() const override { return is_up_; }
  bool active() const override { return is_up_; }

  // The sink gets news of hosts on the wire. AskForNeighbor makes uroced look for a host; the
  // question may get lost: ask again.
  using NeighborSink = std::function<void(const control::Neighbor&)>;
  void SetNeighborSink(NeighborSink sink) { neighbor_sink_ = std::move(sink); }
  void AskForNeighbor(const transport::Gid& gid);
  // This process will send to a group, which may have members on other hosts: tells uroced once.
  void NameGroup(const transport::Gid& group);
  // Opens the process's own sockets, if the fabric has such: a host beyond this one was named.
  void OpenWire();

 private:
  PathState PrepareUplink();
  ReceivedFrame ReceiveFromAny();
  ReceivedFrame ReceiveFromWire();
  void OnWireSocket(UniqueFd socket);
  void ReportDrops(transport::Time now);
  void ServeSockets();
  void ServeControl();
  void OnMessage(control::MessageChannel::Incoming& message);
  void OnReattached();
  void FollowAddresses(std::span<const transport::Gid> now);
  std::vector<control::ServiceClaim> ClaimsOf(const Service& service) const;
  void ReleaseClaim(const control::ServiceClaim& claim);

  const Options options_;
  control::Welcome fabric_{};
  LocalGids gids_;  // those of fabric_
  bool has_new_gids_ = false;
  UniqueFd epoll_;
  control::ControlClient client_;
  FabricLinks links_;
  FabricWire wire_{links_};
  FabricRequests<transport::Qpn, control::Declare, control::Forget> connections_;
  FabricRequests<transport::Gid, control::JoinGroup, control::LeaveGroup> groups_;
  FabricRequests<control::ServiceClaim, control::Listen, control::Unlisten> services_;
  FabricXrcDomains xrc_domains_;
  std::set<control::ServiceClaim> releases_;      // that uroced has not answered yet
  std::map<transport::Qpn, uint32_t> path_mtus_;  // of connections beyond the host
  std::set<transport::Gid> named_;                // hosts and groups that uroced was asked for
  NeighborSink neighbor_sink_;
  uint32_t served_attachments_ = 0;
  bool is_acquired_from_wire_ = false;  // the last buffer
  bool is_received_from_wire_ = false;  // the frame that is not released yet
  bool looks_at_wire_ = false;          // in this burst
  bool is_turn_of_wire_ = false;        // its frames come first in this burst
  PortDrops reported_drops_;            // that uroced has been told of
  transport::Time next_report_;
  bool is_other_fabric_ = false;  // the uroced that was started anew has another NIC
  bool is_up_ = true;             // the NIC's carrier; without a NIC always
};

}  // namespace uroce::nic
