#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/engine/engine.h"
#include "transport/ids.h"

namespace uroce::nic {

// What is known of a fabric's device without being a member of the fabric.
struct DeviceDescription {
  transport::MacAddress mac{};
  std::vector<transport::Gid> gids;
  uint32_t mtu_bytes = 0;  // of IP packets
  bool is_active = true;
};

// The RDMA device of this process with everything behind it: port, impairments, capture, endpoint
// and engine. There is one, shared by all who have it open, and closed with the last of them.
class Device {
 public:
  // Who is told of what happens, as Engine::Options has it.
  struct Listener {
    Engine::EventSink event_sink = {};
    Engine::ConnectionSink connection_sink = {};
    Engine::NeighborSink neighbor_sink = {};
    void* context = nullptr;  // of the events that are about the device itself
  };

  // Has fork() wait for an Open, and hold the engines' locks. Open does it as well: for callers
  // that have fork() hold a lock of theirs, under which they open the device (see ForkHandler).
  static void RegisterForkHandlers();

  // Opens the device, or returns the one that is open; `config` and `listener` are then ignored.
  // In a forked child the parent's device does not count: the child opens one of its own.
  //
  // In direct mode this opens the port. Otherwise it makes this process a member of its fabric, and
  // blocks for a moment when no uroced answers.
  static ErrorOr<std::shared_ptr<Device>> Open(const DeviceConfig& config, Listener listener);

  // As Open would find it, not in direct mode. Costs uroced a short connection.
  static ErrorOr<DeviceDescription> Describe(const DeviceConfig& config);

  Engine& engine() { return *engine_; }
  const DeviceConfig& config() const { return config_; }

 private:
  Device() = default;
  static ErrorOr<std::shared_ptr<Device>> Create(const DeviceConfig& config, Listener listener);

  DeviceConfig config_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace uroce::nic
