#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/engine_group.h"
#include "transport/ids.h"

namespace uroce::nic {

// A device, as far as a process can know it that has not opened it.
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
  // The sinks for events; see EngineOptions.
  struct Listener {
    EngineOptions::EventSink event_sink = {};
    EngineOptions::ConnectionSink connection_sink = {};
    EngineOptions::NeighborSink neighbor_sink = {};
    void* context = nullptr;  // of the events that are about the device itself
  };

  // In direct mode this opens the port. Otherwise it makes this process a member of its fabric, and
  // blocks for a moment when no uroced answers.
  static ErrorOr<std::unique_ptr<Device>> Open(const DeviceConfig& config, Listener listener);

  // Describes the device that Open would make; not in direct mode. Costs uroced a short connection.
  static ErrorOr<DeviceDescription> Describe(const DeviceConfig& config);
  // Describes the device whose port another process of this user has open in direct mode; nullopt
  // if there is none.
  static std::optional<DeviceDescription> DescribeOpenPort(const DeviceConfig& config);

  // How many queue pairs the device has, in all processes of its fabric together. One engine of one
  // process has at most kMaxQps of them.
  uint32_t max_queue_pairs() const;

  EngineGroup& engines() { return engines_; }
  // Adds an engine: another member of the fabric with the same addresses. The caller sees to the
  // limit, DeviceConfig::engines, and serialises these calls. `event_sink` gets the events of the
  // engine's queue pairs and, as the first engine's does, those of the device.
  ErrorOr<Engine*> AddEngine(EngineOptions::EventSink event_sink);

 private:
  Device(const DeviceConfig& config, void* context, std::unique_ptr<Engine> engine)
      : config_(config), context_(context), engines_(std::move(engine)) {}

  const DeviceConfig config_;
  void* const context_;  // of events
  EngineGroup engines_;
};

}  // namespace uroce::nic
