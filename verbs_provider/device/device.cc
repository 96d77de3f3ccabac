#include "verbs_provider/device/device.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/mutex_held_by_fork.h"
#include "dpdk_nic/device/device_config.h"
#include "dpdk_nic/engine/fork_handler.h"
#include "dpdk_nic/engine/thread_preparation.h"
#include "dpdk_nic/port/udp/kernel_route.h"
#include "transport/endpoint.h"
#include "transport/guarded_access.h"
#include "transport/limits.h"
#include "verbs_provider/abi/virtual_kernel_calls.h"
#include "verbs_provider/device/rdma_cm_process.h"
#include "verbs_provider/objects/address_handle.h"
#include "verbs_provider/objects/async_events.h"
#include "verbs_provider/objects/protected_memory.h"

namespace uroce::verbs {
namespace {

// As long as the kernel waits for a neighbour: three solicitations, a second apart.
constexpr transport::Duration kResolveTimeout = transport::Milliseconds(3'000);

// Time for a few messages between processes of this host. Without an answer the call goes on.
constexpr transport::Duration kPathTimeout = transport::Milliseconds(1'000);

transport::EndpointConfig EndpointConfigOf(nic::Engine& engine) {
  return engine.WithEndpoint([](transport::Endpoint& endpoint) { return endpoint.config(); });
}

// Never destroyed: contexts may be closed after the destructors of static objects have run.
std::weak_ptr<Device>& OpenDevice() {
  static std::weak_ptr<Device>& open_device = *new std::weak_ptr<Device>;
  return open_device;
}

nic::Device::Listener ListenerFor(const std::shared_ptr<DeviceFollowers>& followers) {
  return {.event_sink = DeliverEvent,
          .connection_sink = OnConnectionEvents,
          .neighbor_sink =
              [followers](const transport::Gid& gid, const transport::MacAddress& mac) {
                followers->address_handles.ForEach(
                    [&](AddressHandle& ah) { UpdateNeighbor(ah, gid, mac); });
                OnConnectionEvents();  // an id may wait for it
              },
          .context = followers.get()};
}

std::unique_ptr<nic::Device> OpenNic(const std::shared_ptr<DeviceFollowers>& followers,
                                     int* error) {
  const auto& config = Configuration();
  if (!config.ok()) {
    *error = EINVAL;
    nic::Log(nic::LogLevel::kError, config.error());
    return nullptr;
  }
  auto device = nic::Device::Open(config.value(), ListenerFor(followers));
  if (!device.ok()) {
    *error = ENODEV;
    nic::Log(nic::LogLevel::kError, device.error());
    return nullptr;
  }
  return std::move(device).value();
}

}  // namespace

const nic::ErrorOr<nic::DeviceConfig>& Configuration() {
  static const auto& config =
      *new nic::ErrorOr<nic::DeviceConfig>(nic::DeviceConfig::FromEnvironment());
  return config;
}

void GuardMemory() {
  abi::VirtualKernel().guard_faults(&transport::GuardedResumeAddress);
  ProtectedMemory::Serve();
  nic::thread_preparation.store(abi::VirtualKernel().accept_faults, std::memory_order_release);
}

void Device::RegisterForkHandlers() {
  ProtectedMemory::RegisterForkHandler();
  nic::ForkHandler::Register();
  nic::MutexHeldByFork<Device>::Register();
}

std::shared_ptr<Device> Device::FindOpen() {
  const nic::MutexLock lock(nic::MutexHeldByFork<Device>::mutex);
  auto device = OpenDevice().lock();
  return device == nullptr || device->lost_by_fork() ? nullptr : device;
}

std::shared_ptr<Device> Device::Open(int* error) {
  std::weak_ptr<Device>& open_device = OpenDevice();
  const nic::MutexLock lock(nic::MutexHeldByFork<Device>::mutex);
  if (auto device = open_device.lock(); device != nullptr && !device->lost_by_fork()) {
    return device;
  }
  GuardMemory();
  const auto followers = std::make_shared<DeviceFollowers>();
  std::unique_ptr<nic::Device> nic = OpenNic(followers, error);
  if (nic == nullptr) return nullptr;
  auto device = std::make_shared<Device>(std::move(nic), followers);
  open_device = device;
  return device;
}

Device::Device(std::unique_ptr<nic::Device> nic, std::shared_ptr<DeviceFollowers> followers)
    : nic_(std::move(nic)),
      followers_(std::move(followers)),
      engine_choice_(*nic_, Configuration().value().engines),
      engine_(&nic_->engines().first()),
      mac_(EndpointConfigOf(*engine_).mac),
      pkeys_(EndpointConfigOf(*engine_).pkeys),
      active_mtu_(static_cast<ibv_mtu>(EndpointConfigOf(*engine_).active_mtu())),
      carries_ethernet_(engine_->frame_watch(nic::Engine::Verb(*engine_)).has_ethernet()),
      completion_queues_(transport::kMaxCqs),
      shared_receive_queues_(transport::kMaxSrqs),
      address_handles_(kMaxAddressHandles),
      device_memory_pages_(kDeviceMemoryPages) {}

int Device::Resolve(transport::AddressVector& address) {
  const auto mac = engine_->ResolveNeighbor(address.destination_gid, kResolveTimeout);
  if (!mac) return ETIMEDOUT;
  address.destination_mac = *mac;
  return 0;
}

uint8_t Device::HopLimitTo(const transport::AddressVector& address) {
  const transport::EndpointConfig config = EndpointConfigOf(*engine_);
  const auto& own = config.gids;
  const bool is_own = std::find(own.begin(), own.end(), address.destination_gid) != own.end();
  if (!config.has_wire || is_own) return nic::kDefaultHopLimit;
  return nic::HopLimitOf(
      {.destination = address.destination_gid, .source = config.SourceOf(address)});
}

int Device::PreparePath(nic::Engine& engine, transport::Qpn local, const transport::Gid& remote_gid,
                        const transport::Gid& alternate_gid, transport::Qpn remote,
                        transport::Mtu* path_mtu) {
  const transport::Route route = engine.WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.config().RouteTo(remote_gid, remote); });
  if (route == transport::Route::kLoopback) return 0;
  nic::PacketPort::Path path = {.route = route,
                                .local = local,
                                .remote = remote,
                                .remote_gid = remote_gid,
                                .alternate_gid = alternate_gid};
  if (const int error = Prepare(engine, path)) return error;
  if (route != transport::Route::kWire) return 0;
  for (const transport::Gid& gid : {remote_gid, alternate_gid}) {
    if (gid.IsZero()) continue;
    path.remote_gid = gid;
    transport::EndpointConfig way;
    way.port_mtu = engine.PathMtu(path);
    *path_mtu = std::min(*path_mtu, way.active_mtu());
  }
  return 0;
}

int Device::PrepareDatagramPath(transport::Qpn local) {
  return Prepare(
      *engine_, {.route = transport::Route::kWire, .local = local, .remote = {}, .remote_gid = {}});
}

int Device::Prepare(nic::Engine& engine, const nic::PacketPort::Path& path) {
  const auto state = engine.PreparePath(path, kPathTimeout);
  return state == nic::PacketPort::PathState::kRefused ? EBUSY : 0;
}

int Device::JoinGroup(const transport::Gid& group) {
  const auto state = engine_->JoinGroup(group, kPathTimeout);
  return state == nic::PacketPort::PathState::kRefused ? ENOSPC : 0;
}

std::vector<transport::Gid> Device::gids() { return EndpointConfigOf(*engine_).gids; }

transport::Gid Device::SourceOf(const transport::AddressVector& address) {
  return engine_->WithEndpoint(
      [&](transport::Endpoint& endpoint) { return endpoint.config().SourceOf(address); });
}

ibv_port_state Device::port_state() {
  return engine_->port_active() ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
}

std::optional<transport::PdId> Device::TakePdId() {
  const nic::MutexLock lock(pd_ids_lock_);
  if (!free_pd_ids_.empty()) {
    const transport::PdId id = free_pd_ids_.back();
    free_pd_ids_.pop_back();
    return id;
  }
  if (next_pd_id_ > transport::kMaxProtectionDomains) return std::nullopt;
  // Room for every id ever given out, so that returning one cannot fail.
  free_pd_ids_.reserve(next_pd_id_);
  return transport::PdId{next_pd_id_++};
}

void Device::ReturnPdId(transport::PdId id) {
  const nic::MutexLock lock(pd_ids_lock_);
  free_pd_ids_.push_back(id);
}

}  // namespace uroce::verbs
