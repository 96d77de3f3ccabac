// The rdma_cm of this process, which serves /dev/infiniband/rdma_cm of the virtual kernel.
#include "verbs_provider/device/rdma_cm_process.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/mutex_held_by_fork.h"
#include "dpdk_nic/base/random_seed.h"
#include "dpdk_nic/link_layer/local_address.h"
#include "dpdk_nic/link_layer/rtnetlink.h"
#include "dpdk_nic/port/udp/kernel_route.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/endpoint.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/fork_generation.h"
#include "verbs_provider/base/identity.h"
#include "verbs_provider/device/device.h"
#include "verbs_provider/rdma_cm/agent.h"
#include "verbs_provider/rdma_cm/commands.h"
#include "verbs_provider/virtual_kernel/device/rdma_cm_calls.h"

namespace uroce::verbs {
namespace {

using nic::PacketPort;

// Time for a message to uroced and its answer.
constexpr transport::Duration kReserveTimeout = transport::Milliseconds(5'000);
// Exit waits this long for a command of another thread.
constexpr int kExitAttempts = 200;
constexpr std::chrono::milliseconds kExitPause{1};

PacketPort::Service ToPort(const rdma_cm::Service& service) {
  return {.id = service.id,
          .address = service.address,
          .only_ipv6 = service.only_ipv6,
          .shares = service.shares,
          .listens = service.listens};
}

class EngineAccess : public rdma_cm::DeviceAccess {
 public:
  explicit EngineAccess(std::shared_ptr<Device> device) : device_(std::move(device)) {
    facts_.has_wire = device_->engine().WithEndpoint(
        [](transport::Endpoint& endpoint) { return endpoint.config().has_wire; });
    facts_.node_guid = NodeGuid(device_->mac());
    facts_.mtu = static_cast<transport::Mtu>(device_->active_mtu());
  }

  bool has_failed() override { return device_->has_failed(); }

  const rdma_cm::DeviceFacts& facts() override {
    facts_.gids = device_->gids();
    return facts_;
  }

  nic::KernelRoute FindRoute(const nic::RouteQuestion& question) override {
    return nic::FindKernelRoute(question);
  }
  uint8_t HopLimit(const nic::RouteQuestion& question) override {
    return nic::HopLimitOf(question);
  }
  // Where the kernel cannot be asked, sending will tell.
  bool KnowsNextHop(const nic::RouteQuestion& question) override {
    const auto hop = nic::FindNextHop(question);
    return !hop || nic::IsResolved(*hop);
  }
  bool KnowsNeighbor(const transport::Gid& destination) override {
    return device_->engine().ResolveNeighbor(destination, transport::Duration{0}).has_value();
  }

  void ExplainMissingGid(const transport::Gid& address) override {
    const std::string text = nic::AddressText(address);
    nic::Log(nic::LogLevel::kWarning,
             "rdma_cm cannot bind to " + text + " (ENODEV): the address is not in the GID table, " +
                 "which has room for " + std::to_string(nic::kMaxLocalAddresses) +
                 " addresses. 'uroce status' lists those that are; remove some from the host, or " +
                 "choose this one with 'uroce run --uplink udp,address=" + text + "'");
  }

  void WithConnectionManager(const Use& use) override {
    device_->engine().WithConnectionManager(
        [&](transport::cm::ConnectionManager& cm, transport::Time now) { use(cm, now); });
  }

  int ReserveService(const rdma_cm::Service& service) override {
    switch (device_->engine().ReserveService(ToPort(service), kReserveTimeout)) {
      case PacketPort::ServiceState::kReserved:
        return 0;
      case PacketPort::ServiceState::kInUse:
        return EADDRINUSE;
      case PacketPort::ServiceState::kNoRoom:
        return ENOBUFS;
      case PacketPort::ServiceState::kPending:
        nic::Log(nic::LogLevel::kWarning,
                 "uroced has not answered for 5 s, so no port could be reserved: 'uroce status' "
                 "shows whether it runs");
        return ETIMEDOUT;
    }
    return EINVAL;
  }

  void ReleaseService(const rdma_cm::Service& service) override {
    device_->engine().ReleaseService(ToPort(service));
  }

 private:
  const std::shared_ptr<Device> device_;
  rdma_cm::DeviceFacts facts_;
};

std::unique_ptr<rdma_cm::DeviceAccess> OpenDevice(int* error) {
  auto device = Device::Open(error);
  if (device == nullptr) return nullptr;
  if (device->has_failed()) {
    *error = ENODEV;
    return nullptr;
  }
  return std::make_unique<EngineAccess>(std::move(device));
}

// The ids of the process, and the thread that carries connection events to them. Never destroyed.
struct Process {
  explicit Process(const transport::Seed& seed) : agent(seed, OpenDevice) {}

  rdma_cm::Agent agent;  // under the mutex
  nic::BackgroundThread worker;
  std::atomic<bool> is_told{false};
  const uint32_t fork_generation = CurrentForkGeneration();

  bool lost_by_fork() const { return fork_generation != CurrentForkGeneration(); }
};

using Held = nic::MutexHeldByFork<Process>;
std::atomic<Process*> current = nullptr;

// While ids wait for neighbors, `news` is open: what the kernel finds out about its neighbors. An
// id is looked at after it has been opened, so that nothing is missed.
void CarryEvents(Process& process) {
  std::optional<nic::RtnetlinkSocket> news;
  transport::Time deadline = transport::kNever;
  while (true) {
    process.worker.Wait(news ? news->fd() : -1, -1, deadline);
    process.is_told = false;
    while (news && news->Receive()) {
    }
    const nic::MutexLock lock(Held::mutex);
    if (process.agent.NextDeadline() == transport::kNever) {
      news.reset();
    } else if (!news) {
      news.emplace(RTMGRP_NEIGH);
    }
    // Without memory an event is lost, as in the kernel.
    (void)ReturningErrno([&] {
      process.agent.TakeConnectionEvents();
      process.agent.ServeResolutions();
      return 0;
    });
    deadline = process.agent.NextDeadline();
  }
}

int NeedProcess(Process*& process) UROCE_REQUIRES(Held::mutex) {
  process = current.load();
  if (process != nullptr && !process->lost_by_fork()) return 0;
  const auto seed = nic::NewRandomSeed();
  if (!seed) return EIO;
  process = new Process({(*seed)[0], (*seed)[1]});
  if (const int error =
          process->worker.Start("uroce-rdma_cm", [made = process] { CarryEvents(*made); })) {
    delete process;
    return error;
  }
  current = process;
  return 0;
}

// Closes what is open at exit(), as the kernel does: peers learn that connections have ended.
__attribute__((destructor)) void CloseAtExit() {
  Process* const process = current.load();
  if (process == nullptr || process->lost_by_fork()) return;
  // Bounded, because this thread may be in the middle of a command and hold the mutex itself.
  for (int attempt = 0; !Held::mutex.try_lock(); ++attempt) {
    if (attempt == kExitAttempts) return;
    std::this_thread::sleep_for(kExitPause);
  }
  (void)ReturningErrno([&] {
    process->agent.CloseAll();
    return 0;
  });
  Held::mutex.unlock();
}

}  // namespace

void RegisterConnectionManagerForkHandler() { Held::Register(); }

void OnConnectionEvents() {
  Process* const process = current.load();
  if (process != nullptr && !process->is_told.exchange(true)) process->worker.Wake();
}

}  // namespace uroce::verbs

struct uroce_rdma_cm {
  uroce::verbs::Process* process;
  uroce::verbs::rdma_cm::Channel* channel;
};

using uroce::nic::MutexLock;
using uroce::verbs::Held;
using uroce::verbs::ReturningErrno;

__attribute__((visibility("default"))) int uroce_rdma_cm_open(void* file,
                                                              uroce_rdma_cm_events events,
                                                              uroce_rdma_cm** channel) {
  return ReturningErrno([&] {
    const MutexLock lock(Held::mutex);
    uroce::verbs::Process* process;
    if (const int error = uroce::verbs::NeedProcess(process)) return error;
    auto* const opened =
        process->agent.OpenChannel([file, events](int delta) { events(file, delta); });
    *channel = new uroce_rdma_cm{process, opened};
    return 0;
  });
}

__attribute__((visibility("default"))) int uroce_rdma_cm_write(uroce_rdma_cm* channel,
                                                               uroce_rdma_cm* other,
                                                               const void* command, size_t bytes) {
  return ReturningErrno([&] {
    if (channel->process->lost_by_fork()) return EIO;
    const bool is_same = other != nullptr && other->process == channel->process;
    const MutexLock lock(Held::mutex);
    auto& agent = channel->process->agent;
    const uroce::transport::Time deadline = agent.NextDeadline();
    const int error = uroce::verbs::rdma_cm::RunCommand(
        agent, *channel->channel, is_same ? other->channel : nullptr,
        reinterpret_cast<uintptr_t>(command), bytes);
    if (agent.NextDeadline() < deadline) channel->process->worker.Wake();
    return error;
  });
}

__attribute__((visibility("default"))) void uroce_rdma_cm_close(uroce_rdma_cm* channel) {
  const std::unique_ptr<uroce_rdma_cm> closed(channel);
  // In a forked child: the connections belong to the parent.
  if (channel->process->lost_by_fork()) return;
  (void)ReturningErrno([&] {
    const MutexLock lock(Held::mutex);
    channel->process->agent.CloseChannel(channel->channel);
    return 0;
  });
}
