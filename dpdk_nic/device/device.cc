#include "dpdk_nic/device/device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "dpdk_nic/base/memory_file.h"
#include "dpdk_nic/base/random_seed.h"
#include "dpdk_nic/capture/pcapng_writer.h"
#include "dpdk_nic/control/protocol.h"
#include "dpdk_nic/device/await_link.h"
#include "dpdk_nic/device/open_port.h"
#include "dpdk_nic/engine/port_notice.h"
#include "dpdk_nic/engine/published_state.h"
#include "dpdk_nic/port/fabric/fabric_neighbors.h"
#include "dpdk_nic/port/fabric/fabric_port.h"
#include "dpdk_nic/port/fabric/fabric_query.h"
#include "dpdk_nic/port/faults/impaired_port.h"
#include "transport/limits.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::Qpn;

PortKey KeyOf(const DeviceConfig& config) {
  return {.devargs = config.port_devargs, .ip = config.ip};
}

// The parts of an engine that come from its port or fabric.
struct Parts {
  std::unique_ptr<PacketPort> port;
  transport::EndpointConfig endpoint;
  std::unique_ptr<LinkLayer> link_layer;
  std::unique_ptr<PublishedState> published_state;
};

Qpn FirstQpnOfBlock(uint32_t block) { return {transport::kMaxQps * block}; }

// A fabric without a NIC has no addresses of its own: each process uses its configured one.
std::vector<Gid> FabricGids(const DeviceConfig& config, bool has_wire, const auto& fabric) {
  if (!has_wire) return GidTable(DeviceMac(config), config.ip);
  const size_t count = std::min<size_t>(fabric.gid_count, fabric.gids.size());
  return {fabric.gids.begin(), fabric.gids.begin() + static_cast<ptrdiff_t>(count)};
}

ErrorOr<Parts> OpenDirectMode(const DeviceConfig& config) {
  auto opened = OpenPort({.devargs = config.port_devargs,
                          .dpdk_library = config.dpdk_library,
                          .mtu_bytes = config.mtu_bytes,
                          .addresses = {{.ip = config.ip}},
                          .are_addresses_chosen = config.is_ip_chosen});
  if (!opened.ok()) return Error{opened.error()};

  OpenedPort port = std::move(opened).value();
  AwaitLink(config.port_devargs, port.port.get());
  Parts parts;
  parts.port = std::move(port.port);
  parts.link_layer = std::move(port.link_layer);
  parts.endpoint.gids = std::move(port.gids);
  // The two ends of a memif have blocks of QPNs of their own, because both may have the same
  // address: then only the QPN tells what is meant for the other side from what is meant for
  // ourselves.
  const bool is_client = config.port_devargs.find("role=client") != std::string::npos;
  parts.endpoint.first_qpn = FirstQpnOfBlock(is_client ? 2 : 1);
  return parts;
}

bool IsImpaired(const DeviceConfig& config) {
  return config.impairments.any() || !config.scenario.empty();
}

// Faults need the ICRC on links. A capture needs the headers, and computes the ICRC itself.
transport::IcrcUse IcrcOnLinks(const DeviceConfig& config) {
  if (IsImpaired(config)) return transport::IcrcUse::kCarried;
  return config.capture_file.empty() ? transport::IcrcUse::kWaivedWithHeaders
                                     : transport::IcrcUse::kWaived;
}

ErrorOr<Parts> AttachToFabric(const DeviceConfig& config) {
  Parts parts;
  parts.published_state = PublishedState::Create();
  if (parts.published_state == nullptr) {
    return Error{"there is no shared memory for the device: " + WhyNoSharedMemory(errno)};
  }
  auto port = std::make_unique<FabricPort>(
      FabricPort::Options{.fabric = config.fabric,
                          .ip = config.ip,
                          .mtu_bytes = config.mtu_bytes,
                          .needs_ip = config.is_ip_chosen,
                          .published_state_fd = parts.published_state->fd(),
                          .icrc = IcrcOnLinks(config)});
  if (const auto error = port->Attach()) return *error;

  const control::Welcome& fabric = port->fabric();
  parts.endpoint.gids = FabricGids(config, fabric.has_wire != 0, fabric);
  parts.endpoint.has_links = true;
  parts.endpoint.has_wire = fabric.has_wire != 0;
  parts.endpoint.first_qpn = FirstQpnOfBlock(fabric.block);
  parts.link_layer = std::make_unique<FabricNeighbors>(*port);
  parts.port = std::move(port);
  return parts;
}

// `others`: the engines that the device has already, or nullptr.
ErrorOr<std::unique_ptr<Engine>> MakeEngine(const DeviceConfig& config, Device::Listener listener,
                                            EngineGroup* others) {
  Engine::Options options;
  options.mode = config.mode;
  options.event_sink = std::move(listener.event_sink);
  options.connection_sink = std::move(listener.connection_sink);
  options.neighbor_sink = std::move(listener.neighbor_sink);
  if (!config.capture_file.empty()) {
    auto capture = PcapngWriter::Open(config.capture_file);
    if (!capture.ok()) return Error{capture.error()};
    options.tap = std::move(capture).value();
  }

  auto opened = config.direct() ? OpenDirectMode(config) : AttachToFabric(config);
  if (!opened.ok()) return Error{opened.error()};
  Parts parts = std::move(opened).value();
  parts.endpoint.mac = parts.port->mac();
  parts.endpoint.port_mtu = parts.port->mtu();
  parts.endpoint.pkeys = config.pkeys;
  parts.endpoint.probes = true;
  parts.endpoint.congestion = config.congestion;
  parts.endpoint.reorder_packets = transport::kReorderPackets;
  const auto seed = NewRandomSeed();
  if (!seed) return Error{"the kernel gives no random numbers: " + std::string(strerror(errno))};
  parts.endpoint.seed = {(*seed)[0], (*seed)[1]};
  parts.endpoint.context = listener.context;
  if (others != nullptr) {
    parts.endpoint.memory = &others->memory();
    options.number = static_cast<uint32_t>(others->All().size());
  }
  options.link_layer = std::move(parts.link_layer);
  options.published_state = std::move(parts.published_state);
  if (config.direct()) {
    options.port_notice = PortNotice::Create(KeyOf(config), {.mac = parts.endpoint.mac,
                                                             .mtu_bytes = parts.endpoint.port_mtu,
                                                             .gids = parts.endpoint.gids,
                                                             .is_active = parts.port->active()});
  }
  if (IsImpaired(config)) {
    parts.port =
        std::make_unique<ImpairedPort>(std::move(parts.port), config.impairments, config.scenario);
  }
  return std::make_unique<Engine>(std::move(parts.port), parts.endpoint, std::move(options));
}

}  // namespace

ErrorOr<std::unique_ptr<Device>> Device::Open(const DeviceConfig& config, Listener listener) {
  void* const context = listener.context;
  auto engine = MakeEngine(config, std::move(listener), nullptr);
  if (!engine.ok()) return Error{engine.error()};
  return std::unique_ptr<Device>(new Device(config, context, std::move(engine).value()));
}

uint32_t Device::max_queue_pairs() const {
  constexpr uint32_t kBlocks = control::kLastBlock - control::kFirstBlock + 1;
  return transport::kMaxQps * (config_.direct() ? 1 : kBlocks);
}

ErrorOr<Engine*> Device::AddEngine(EngineOptions::EventSink event_sink) {
  auto engine =
      MakeEngine(config_, {.event_sink = std::move(event_sink), .context = context_}, &engines_);
  if (!engine.ok()) return Error{engine.error()};
  return &engines_.Add(std::move(engine).value());
}

ErrorOr<DeviceDescription> Device::Describe(const DeviceConfig& config) {
  const auto answer = QueryFabric(config.fabric);
  if (!answer.ok()) return Error{answer.error()};
  const control::StatusDaemon& fabric = answer.value();
  const bool has_wire = fabric.has_wire != 0;
  return DeviceDescription{.mac = has_wire ? fabric.mac : DeviceMac(config),
                           .gids = FabricGids(config, has_wire, fabric),
                           .mtu_bytes = config.mtu_bytes != 0 ? config.mtu_bytes : fabric.mtu_bytes,
                           .is_active = !has_wire || fabric.wire_is_up != 0};
}

std::optional<DeviceDescription> Device::DescribeOpenPort(const DeviceConfig& config) {
  auto port = PortNotice::Find(KeyOf(config));
  if (!port) return std::nullopt;
  return DeviceDescription{.mac = port->mac,
                           .gids = std::move(port->gids),
                           .mtu_bytes = port->mtu_bytes,
                           .is_active = port->is_active};
}

}  // namespace uroce::nic
