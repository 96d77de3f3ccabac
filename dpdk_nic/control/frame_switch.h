#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/switch_counters.h"

namespace uroce::nic {
class RingLink;
}  // namespace uroce::nic

namespace uroce::nic::control {

// The resources of the switch that a process uses.
struct SwitchUsage {
  uint32_t declared_connections = 0;
  uint32_t groups = 0;
  uint32_t listeners = 0;
};

// The switch as the control server uses it, to say which process may send and gets which frames.
// Implementations have a thread of their own; any thread may call them.
class FrameSwitch {
 public:
  virtual ~FrameSwitch() = default;

  // The process that has `block` reaches the switch through `uplink`. A second one replaces the
  // first.
  virtual ErrnoValue ConnectUplink(Block block, std::unique_ptr<RingLink> uplink) = 0;
  // Forgets the process: its uplink and all that it asked for.
  virtual void Remove(Block block) = 0;

  virtual ErrnoValue Declare(Block block, const control::Declare& connection) = 0;
  virtual void Forget(Block block, transport::Qpn local) = 0;
  virtual ErrnoValue JoinGroup(Block block, const transport::Gid& group) = 0;
  virtual void LeaveGroup(Block block, const transport::Gid& group) = 0;
  // How many groups the wire has room for, of all processes together. Grows and shrinks with the
  // interfaces of the host.
  virtual size_t max_groups() = 0;
  virtual ErrnoValue Listen(Block block, const control::Listen& service) = 0;
  virtual void Unlisten(Block block, const control::ServiceClaim& claim) = 0;

  // Resolves a host's Ethernet address. The server gets the result later, also a failure.
  virtual void Resolve(const transport::Gid& gid) = 0;

  // Prepares the path to a host beyond this one that a process named; a zero GID: to all of them.
  // Returns the longest IP packet that the path takes, 0 if that is not known.
  virtual uint32_t PreparePath(const transport::Gid& remote) = 0;

  // UDP sockets that get the wire's frames for the process; see SocketSharing. None if the wire has
  // no such sockets, or not yet: then the switch tells the server when it has.
  virtual std::vector<UniqueFd> ShareWire(Block /*block*/) { return {}; }

  virtual SwitchCounters counters() = 0;
  virtual SwitchUsage usage(Block block) = 0;
};

}  // namespace uroce::nic::control
