#pragma once

#include <cstdint>
#include <memory>
#include <utility>
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

// An RDMA device with everything behind it: port, impairments, capture, endpoint and engine.
// Destroying it closes the port.
class Device {
 public:
  // What is told of events, as Engine::Options has it.
  struct Listener {
    Engine::EventSink event_sink = {};
    EngineOptions::ConnectionSink connection_sink = {};
    EngineOptions::NeighborSink neighbor_sink = {};
    void* context = nullptr;  // of the events that are about the device itself
  };

  // In direct mode this opens the port. Otherwise it makes this process a member of its fabric, and
  // blocks for a moment when no uroced answers.
  static ErrorOr<std::unique_ptr<Device>> Open(const DeviceConfig& config, Listener listener);

  // As Open would find it, not in direct mode. Costs uroced a short connection.
  static ErrorOr<DeviceDescription> Describe(const DeviceConfig& config);

  Engine& engine() { return *engine_; }

 private:
  explicit Device(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}

  const std::unique_ptr<Engine> engine_;
};

}  // namespace uroce::nic
