#pragma once

#include <memory>
#include <optional>

#include "dpdk_nic/device_config.h"
#include "dpdk_nic/engine.h"
#include "dpdk_nic/error_or.h"
#include "dpdk_nic/shm_port.h"

namespace uroce::nic {

// The RDMA device of this process with everything behind it: port, impairments, capture, endpoint
// and engine. There is one, shared by all who have it open, and closed with the last of them.
class Device {
 public:
  // Who is told of what happens, as Engine::Options has it.
  struct Listener {
    Engine::EventSink event_sink = {};
    Engine::NeighborSink neighbor_sink = {};
    void* context = nullptr;  // of the events that are about the device itself
  };

  // Opens the device, or returns the one that is open; `config` and `listener` are then ignored.
  // In a forked child the parent's device does not count: the child opens one of its own.
  //
  // In direct mode this opens the port. A link is not joined yet, so that a process that only looks
  // at the device does not occupy a side.
  static ErrorOr<std::shared_ptr<Device>> Open(const DeviceConfig& config, Listener listener);

  Engine& engine() { return *engine_; }
  const DeviceConfig& config() const { return config_; }

  // To be called before a queue pair is created: joins the link, which decides our block of QPNs.
  // Returns why it cannot be joined. Blocks for a moment when the link is busy, as a process that
  // is just ending may be about to leave it, and while a peer that is there has not answered yet.
  // Any thread.
  std::optional<Error> Join();

 private:
  Device() = default;
  static ErrorOr<std::shared_ptr<Device>> Create(const DeviceConfig& config, Listener listener);
  ErrorOr<bool> TryJoin(bool is_last_try);

  DeviceConfig config_;
  std::unique_ptr<Engine> engine_;
  // Of a link that was not joined yet; belongs to the engine.
  ShmPort* link_to_join_ = nullptr;
};

}  // namespace uroce::nic
