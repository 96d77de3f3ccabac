// The cost of the switch for a frame from a process to the NIC, beside the cost of the port: the
// same frames straight into the port, through the switch, and through the switch from a ring that
// another processor fills.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/switch/forwarder.h"
#include "tests/dpdk_nic/switch/ring_process.h"
#include "tests/dpdk_nic/switch/switch_frames.h"

namespace uroce::nic {
namespace {

// Takes every frame. Like a NIC's, its buffers were not used just before.
class NullPort final : public PacketPort {
 public:
  ReceivedFrame Receive() override { return {}; }
  void ReleaseReceived() override {}
  transport::FrameRoom AcquireTransmit(transport::Route) override {
    return buffers_[next_ % kBuffers];
  }
  void CommitTransmit(size_t) override { ++next_; }
  void Flush() override {}
  transport::MacAddress mac() const override { return kOurMac; }
  uint32_t mtu() const override { return 4'200; }
  bool link_up() const override { return true; }

 private:
  static constexpr size_t kBuffers = 256;

  std::vector<std::array<uint8_t, transport::kMaxFrameBytes>> buffers_{kBuffers};
  size_t next_ = 0;
};

std::vector<uint8_t> FrameWith(int64_t payload_bytes) {
  RoceSpec spec = ToWire(kRcSendOnly);
  spec.payload.assign(static_cast<size_t>(payload_bytes), 0x5a);
  return spec.Build();
}

struct Fabric {
  Fabric() : forwarder(std::make_unique<NullPort>(), nullptr, {kOurIpv4}, {}) {
    forwarder.table().Declare(kAlice, {QpOf(kAlice, 5), {42}, kFarIpv4});
    forwarder.ConnectUplink(Now(), kAlice, alice.TakeSwitchEnd());
  }

  uint64_t sent() const { return forwarder.counters().frames_to_wire; }

  Forwarder forwarder;
  RingProcess alice;
};

void StraightIntoThePort(benchmark::State& state) {
  NullPort port;
  const std::vector<uint8_t> frame = FrameWith(state.range(0));
  for (auto _ : state) {
    const std::span<uint8_t> room = port.AcquireTransmit(transport::Route::kWire);
    std::copy(frame.begin(), frame.end(), room.begin());
    benchmark::ClobberMemory();
    port.CommitTransmit(frame.size());
  }
  state.SetItemsProcessed(state.iterations());
}

// Processor time, like the column "CPU" of StraightIntoThePort.
double SecondsOfThisThread() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Times only the passes, not the filling of the ring: an iteration is a ring full of frames.
void ThroughTheSwitch(benchmark::State& state) {
  Fabric fabric;
  const std::vector<uint8_t> frame = FrameWith(state.range(0));
  for (auto _ : state) {
    while (fabric.alice.Send(frame)) {
    }
    const uint64_t enough = fabric.sent() + kSlots;
    const double begin = SecondsOfThisThread();
    while (fabric.sent() < enough) fabric.forwarder.RunOnce(Now());
    state.SetIterationTime(SecondsOfThisThread() - begin);
  }
  state.SetItemsProcessed(static_cast<int64_t>(fabric.sent()));
}

void ThroughTheSwitchFromAnotherProcessor(benchmark::State& state) {
  Fabric fabric;
  const std::vector<uint8_t> frame = FrameWith(state.range(0));
  std::atomic<bool> stop{false};
  std::thread process([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      if (!fabric.alice.Send(frame)) std::this_thread::yield();
    }
  });
  for (auto _ : state) {
    const uint64_t enough = fabric.sent() + kSlots;
    while (fabric.sent() < enough) fabric.forwarder.RunOnce(Now());
  }
  state.SetItemsProcessed(static_cast<int64_t>(fabric.sent()));
  stop = true;
  process.join();
}

BENCHMARK(StraightIntoThePort)->Arg(64)->Arg(4'096);
BENCHMARK(ThroughTheSwitch)->Arg(64)->Arg(4'096)->UseManualTime();
BENCHMARK(ThroughTheSwitchFromAnotherProcessor)->Arg(64)->Arg(4'096)->UseRealTime();

}  // namespace
}  // namespace uroce::nic
