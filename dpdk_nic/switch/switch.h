#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/frame_switch.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/packet_port.h"
#include "dpdk_nic/port/ring/ring_link.h"
#include "dpdk_nic/port/socket_sharing.h"
#include "dpdk_nic/switch/forwarder.h"
#include "dpdk_nic/switch/switch_thread.h"
#include "transport/ids.h"

namespace uroce::nic {

// uroced's data plane: a Forwarder and the thread that drives it. The thread starts with the wire
// or the first uplink.
class Switch final : public control::FrameSwitch {
 public:
  // Called on the switch's thread, or for a question with an immediate answer on the asking thread.
  using Listener = SwitchListener;

  struct Config {
    std::unique_ptr<PacketPort> wire = {};       // none: a fabric that ends at this host
    std::unique_ptr<LinkLayer> link_layer = {};  // of the wire; none: StaticNeighbors
    std::vector<transport::Gid> gids = {};       // of the wire
    SocketSharing* sharing = nullptr;            // part of the wire; see Forwarder::SetSharing
    std::optional<int> cpu = {};                 // the thread is pinned to it and spins
    Listener listener = {};
  };
  static ErrorOr<std::unique_ptr<Switch>> Create(Config config);

  control::ErrnoValue ConnectUplink(control::Block block,
                                    std::unique_ptr<RingLink> uplink) override;
  void Remove(control::Block block) override;
  control::ErrnoValue Declare(control::Block block, const control::Declare& connection) override;
  void Forget(control::Block block, transport::Qpn local) override;
  control::ErrnoValue JoinGroup(control::Block block, const transport::Gid& group) override;
  void LeaveGroup(control::Block block, const transport::Gid& group) override;
  size_t max_groups() override;
  control::ErrnoValue Listen(control::Block block, const control::Listen& service) override;
  void Unlisten(control::Block block, const control::ServiceClaim& claim) override;
  void Resolve(const transport::Gid& gid) override;
  uint32_t PreparePath(const transport::Gid& remote) override;
  std::vector<UniqueFd> ShareWire(control::Block block) override;
  control::SwitchCounters counters() override;
  control::SwitchUsage usage(control::Block block) override;

 private:
  explicit Switch(Config config);

  EngineLock lock_;
  Forwarder forwarder_ UROCE_GUARDED_BY(lock_);
  SocketSharing* const sharing_ UROCE_PT_GUARDED_BY(lock_);
  Mutex start_mutex_;
  SwitchThread thread_;
};

}  // namespace uroce::nic
