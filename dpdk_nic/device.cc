#include "dpdk_nic/device.h"

#include <unistd.h>

#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "dpdk_nic/clock.h"
#include "dpdk_nic/impaired_port.h"
#include "dpdk_nic/open_dpdk_port.h"
#include "dpdk_nic/pcapng_writer.h"

namespace uroce::nic {
namespace {

using transport::Qpn;

constexpr transport::Duration kBusyPatience = transport::Milliseconds(1'000);
constexpr useconds_t kBusyPollUs = 10'000;
constexpr useconds_t kComingUpPollUs = 200;

// The two sides of a link have blocks of QPNs of their own, because both may have the same address:
// then only the QPN tells what is meant for the other side from what is meant for ourselves.
Qpn FirstQpnOfSide(int side) { return {transport::kMaxQps * static_cast<uint32_t>(side + 1)}; }

OpenDpdkPortRequest RequestFor(const DeviceConfig& config) {
  OpenDpdkPortRequest request;
  request.devargs = config.port_devargs.c_str();
  request.mtu_bytes = config.mtu_bytes;
  request.addresses[0] = {.ip = config.ip};
  request.address_count = 1;
  request.mac = DeviceMac(config);
  return request;
}

transport::EndpointConfig EndpointConfigFor(const PacketPort& port, const DeviceConfig& config) {
  transport::EndpointConfig endpoint;
  endpoint.mac = port.mac();
  endpoint.gids = GidTable(port.mac(), config.ip);
  endpoint.port_mtu = port.mtu();
  // The server of a memif is side 0; ports that are no point-to-point links have no sides.
  const bool client = config.port_devargs.find("role=client") != std::string::npos;
  endpoint.first_qpn = FirstQpnOfSide(client ? 1 : 0);
  endpoint.seed = std::random_device{}();
  return endpoint;
}

}  // namespace

ErrorOr<std::shared_ptr<Device>> Device::Open(const DeviceConfig& config, Listener listener) {
  static std::mutex mutex;
  static std::weak_ptr<Device>& open_device = *new std::weak_ptr<Device>;
  const std::lock_guard lock(mutex);
  if (auto device = open_device.lock(); device != nullptr && !device->engine().orphaned()) {
    return device;
  }
  auto device = Create(config, std::move(listener));
  if (device.ok()) open_device = device.value();
  return device;
}

ErrorOr<std::shared_ptr<Device>> Device::Create(const DeviceConfig& config, Listener listener) {
  Engine::Options options;
  options.mode = config.mode;
  options.event_sink = std::move(listener.event_sink);
  options.neighbor_sink = std::move(listener.neighbor_sink);
  if (!config.capture_file.empty()) {
    auto capture = PcapngWriter::Open(config.capture_file);
    if (!capture.ok()) return Error{capture.error()};
    options.tap = std::move(capture).value();
  }

  const std::shared_ptr<Device> device(new Device);
  device->config_ = config;
  std::unique_ptr<PacketPort> port;
  if (config.direct()) {
    auto opened = OpenDpdkPort(config.dpdk_library, RequestFor(config));
    if (!opened.ok()) return Error{opened.error()};
    OpenedPort both = std::move(opened).value();
    port = std::move(both.port);
    options.link_layer = std::move(both.link_layer);
  } else {
    const uint32_t mtu_bytes = config.mtu_bytes != 0 ? config.mtu_bytes : kDefaultLinkMtuBytes;
    auto link = std::make_unique<ShmPort>(config.link, DeviceMac(config), mtu_bytes);
    device->link_to_join_ = link.get();
    port = std::move(link);
  }
  transport::EndpointConfig endpoint = EndpointConfigFor(*port, config);
  endpoint.context = listener.context;
  if (config.impairments.any() || !config.scenario.empty()) {
    port = std::make_unique<ImpairedPort>(std::move(port), config.impairments, config.scenario);
  }
  device->engine_ = std::make_unique<Engine>(std::move(port), endpoint, std::move(options));
  return device;
}

std::optional<Error> Device::Join() {
  const transport::Time give_up = Now() + kBusyPatience;
  while (true) {
    const bool is_last_try = Now() >= give_up;
    const ErrorOr<bool> joined = TryJoin(is_last_try);
    if (joined.ok() && joined.value()) return std::nullopt;
    if (is_last_try) return Error{joined.error()};
    usleep(joined.ok() ? kComingUpPollUs : kBusyPollUs);
  }
}

// Whether the link is joined and nothing is left to wait for: frames are lost while the other side,
// though it is there, has not answered yet, and unreliable services send nothing twice.
ErrorOr<bool> Device::TryJoin(bool is_last_try) {
  return engine_->WithEndpoint([&](transport::Endpoint& endpoint) -> ErrorOr<bool> {
    if (link_to_join_ == nullptr || engine_->orphaned()) return true;
    const ErrorOr<int> side = link_to_join_->Join();
    if (!side.ok()) return Error{side.error()};
    endpoint.SetFirstQpn(FirstQpnOfSide(side.value()));
    link_to_join_->ServeLink();
    if (link_to_join_->is_coming_up() && !is_last_try) return false;
    link_to_join_ = nullptr;
    return true;
  });
}

}  // namespace uroce::nic
