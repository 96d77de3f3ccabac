#include "dpdk_nic/switch/switch.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using transport::Gid;
using transport::Qpn;

bool MayRunOn(int cpu) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed);
}

}  // namespace

ErrorOr<std::unique_ptr<Switch>> Switch::Create(Config config) {
  if (config.cpu && !MayRunOn(*config.cpu)) {
    return Error{"processor " + std::to_string(*config.cpu) +
                 " is none that this process may run on; choose one that taskset -p names"};
  }
  const bool has_wire = config.wire != nullptr;
  std::unique_ptr<Switch> result(new Switch(std::move(config)));
  const int error = has_wire ? result->thread_.Start() : 0;
  if (error != 0) {
    return Error{std::string("cannot start a thread (") + std::strerror(error) +
                 "); raise the limit of processes"};
  }
  return result;
}

Switch::Switch(Config config)
    : forwarder_(std::move(config.wire), std::move(config.link_layer), std::move(config.gids),
                 std::move(config.listener)),
      sharing_(config.sharing),
      thread_(forwarder_, lock_, config.cpu) {
  forwarder_.SetSharing(config.sharing);
}

ErrnoValue Switch::ConnectUplink(Block block, std::unique_ptr<RingLink> uplink) {
  if (!ForwardingTable::IsProcess(block)) return EINVAL;
  {
    const MutexLock guard(start_mutex_);
    if (thread_.Start() != 0) return EAGAIN;
  }
  ErrnoValue error;
  {
    const EngineLockGuard guard(lock_);
    error = forwarder_.ConnectUplink(Now(), block, std::move(uplink));
  }
  thread_.Wake();
  return error;
}

void Switch::Remove(Block block) {
  if (!ForwardingTable::IsProcess(block)) return;
  const EngineLockGuard guard(lock_);
  forwarder_.Remove(Now(), block);
}

ErrnoValue Switch::Declare(Block block, const control::Declare& connection) {
  if (!ForwardingTable::IsProcess(block)) return EINVAL;
  const EngineLockGuard guard(lock_);
  return forwarder_.table().Declare(block, connection);
}

void Switch::Forget(Block block, Qpn local) {
  if (!ForwardingTable::IsProcess(block)) return;
  const EngineLockGuard guard(lock_);
  forwarder_.Forget(Now(), block, local);
}

ErrnoValue Switch::JoinGroup(Block block, const Gid& group) {
  if (!ForwardingTable::IsProcess(block)) return EINVAL;
  const EngineLockGuard guard(lock_);
  return forwarder_.JoinGroup(block, group);
}

void Switch::LeaveGroup(Block block, const Gid& group) {
  if (!ForwardingTable::IsProcess(block)) return;
  const EngineLockGuard guard(lock_);
  forwarder_.LeaveGroup(block, group);
}

size_t Switch::max_groups() {
  const EngineLockGuard guard(lock_);
  return forwarder_.max_groups();
}

// Wakes the thread: a request for the service may be held.
ErrnoValue Switch::Listen(Block block, const control::Listen& service) {
  if (!ForwardingTable::IsProcess(block)) return EINVAL;
  ErrnoValue error;
  {
    const EngineLockGuard guard(lock_);
    error = forwarder_.table().services().Add(block, service);
  }
  thread_.Wake();
  return error;
}

void Switch::Unlisten(Block block, const control::ServiceClaim& claim) {
  if (!ForwardingTable::IsProcess(block)) return;
  const EngineLockGuard guard(lock_);
  forwarder_.table().services().Remove(block, claim);
}

void Switch::Resolve(const Gid& gid) {
  {
    const EngineLockGuard guard(lock_);
    forwarder_.Resolve(Now(), gid);
  }
  thread_.Wake();
}

uint32_t Switch::PreparePath(const Gid& remote) {
  uint32_t mtu_bytes;
  {
    const EngineLockGuard guard(lock_);
    mtu_bytes = forwarder_.PreparePath(remote);
  }
  thread_.Wake();  // the wire may have descriptors to wait for now
  return mtu_bytes;
}

std::vector<UniqueFd> Switch::ShareWire(Block block) {
  if (sharing_ == nullptr || !ForwardingTable::IsProcess(block)) return {};
  const EngineLockGuard guard(lock_);
  return sharing_->Share(block);
}

control::SwitchCounters Switch::counters() {
  const EngineLockGuard guard(lock_);
  control::SwitchCounters counters = forwarder_.counters();
  counters.port = forwarder_.port_drops();
  return counters;
}

control::SwitchUsage Switch::usage(Block block) {
  if (!ForwardingTable::IsProcess(block)) return {};
  const EngineLockGuard guard(lock_);
  return forwarder_.table().usage(block);
}

}  // namespace uroce::nic
