// The counters of the device in sysfs, as NICs have them.
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/device/fabric_status.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/counters.h"
#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/virtual_kernel/device/device_description.h"

namespace uroce::verbs {
namespace {

using transport::Counters;
using transport::DropReason;

struct DeviceCounters {
  Counters packets;
  nic::PortCounters port;

  void Add(const Counters& other) {
    for (const auto& row : transport::kQueuePairCounters) {
      packets.*row.of_endpoint += other.*row.of_endpoint;
    }
    for (size_t i = 0; i < other.dropped.size(); ++i) packets.dropped[i] += other.dropped[i];
  }
  void Add(const nic::PortCounters& other) {
    for (const auto& row : nic::kPortCounters) port.*row.field += other.*row.field;
  }
};

// A counter of the InfiniBand architecture (Documentation/ABI/stable/sysfs-class-infiniband).
struct PortFile {
  const char* path;
  uint64_t (*value)(const DeviceCounters& counters);
};

constexpr uint64_t kBytesOfAWord = 4;  // PortXmitData and PortRcvData count words

constexpr PortFile kPortFiles[] = {
    {"counters/port_xmit_data",
     [](const DeviceCounters& c) { return c.packets.transmitted_bytes / kBytesOfAWord; }},
    {"counters/port_rcv_data",
     [](const DeviceCounters& c) { return c.packets.received_bytes / kBytesOfAWord; }},
    {"counters/port_xmit_packets",
     [](const DeviceCounters& c) { return c.packets.transmitted_packets; }},
    {"counters/port_rcv_packets",
     [](const DeviceCounters& c) { return c.packets.received_packets; }},
    {"counters/port_rcv_errors",
     [](const DeviceCounters& c) {
       uint64_t damaged = 0;
       for (size_t i = 1; i <= static_cast<size_t>(DropReason::kBadIcrc); ++i) {
         damaged += c.packets.dropped[i];
       }
       return damaged;
     }},
    {"counters/port_xmit_discards",
     [](const DeviceCounters& c) {
       return c.port.transmit_dropped_no_link + c.port.transmit_dropped_link_pending;
     }},
};

struct File {
  std::string path;
  const PortFile* of_port = nullptr;
  uint64_t Counters::*of_packets = nullptr;

  uint64_t ValueOf(const DeviceCounters& counters) const {
    return of_port != nullptr ? of_port->value(counters) : counters.packets.*of_packets;
  }
};

// Never destroyed: threads may look into sysfs until the process ends.
const std::vector<File>& Files() {
  static const std::vector<File>& files = *[] {
    auto* all = new std::vector<File>;
    for (const PortFile& file : kPortFiles) all->push_back({file.path, &file, nullptr});
    for (const auto& row : transport::kQueuePairCounters) {
      if (row.linux_name.empty()) continue;
      all->push_back({"hw_counters/" + std::string(row.linux_name), nullptr, row.of_endpoint});
    }
    return all;
  }();
  return files;
}

int ReadOpenDevice(DeviceCounters& sum) {
  const auto device = Device::FindOpen();
  if (device == nullptr) return EIO;
  for (nic::Engine* engine : device->engines().All()) {
    sum.Add(
        engine->WithEndpoint([](transport::Endpoint& endpoint) { return endpoint.counters(); }));
    sum.Add(engine->port_counters());
  }
  return 0;
}

int ReadFabric(const std::string& fabric, DeviceCounters& sum) {
  const auto status = nic::AskForStatus(fabric);
  if (!status.ok()) return EIO;
  for (const nic::ClientStatus& client : status.value().clients) {
    if (!client.endpoint) continue;
    sum.Add(client.endpoint->counters);
    sum.Add(client.endpoint->port);
  }
  return 0;
}

int Read(uint32_t index, uint64_t& value) {
  if (index >= Files().size()) return EINVAL;
  const auto& config = Configuration();
  if (!config.ok()) return EIO;
  DeviceCounters sum;
  const int error =
      config.value().direct() ? ReadOpenDevice(sum) : ReadFabric(config.value().fabric, sum);
  if (error == 0) value = Files()[index].ValueOf(sum);
  return error;
}

}  // namespace
}  // namespace uroce::verbs

extern "C" {

__attribute__((visibility("default"))) const char* uroce_counter_file(uint32_t index) {
  const auto& files = uroce::verbs::Files();
  return index < files.size() ? files[index].path.c_str() : nullptr;
}

__attribute__((visibility("default"))) int uroce_read_counter(uint32_t index, uint64_t* value) {
  return uroce::verbs::ReturningErrno([&] { return uroce::verbs::Read(index, *value); });
}

}  // extern "C"
