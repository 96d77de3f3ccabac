// A port that fails for good makes the device fail.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "dpdk_nic/port/faults/impaired_port.h"
#include "tests/dpdk_nic/engine/engine_host.h"

namespace uroce::nic {
namespace {

using transport::EventType;

// A port that a test can remove.
class RemovablePort final : public ImpairedPort {
 public:
  RemovablePort(std::unique_ptr<PacketPort> port, const std::atomic<bool>& removed)
      : ImpairedPort(std::move(port), Impairments{}), removed_(removed) {}
  bool failed() const override { return removed_; }

 private:
  const std::atomic<bool>& removed_;
};

TEST(PortFailureTest, DeviceFatalIsRaisedOnceAndEveryQueuePairGoesToError) {
  std::atomic<bool> removed{false};
  std::atomic<int> fatal_events{0};
  Engine::Options options;
  options.event_sink = [&](const transport::Event& event) {
    if (event.type == EventType::kDeviceFatal) ++fatal_events;
  };
  EngineHost host(std::move(options), [&](std::unique_ptr<PacketPort> port) {
    return std::make_unique<RemovablePort>(std::move(port), removed);
  });
  host.Connect(host.info());
  EXPECT_EQ(host.state(), transport::QpState::kReadyToSend);
  removed = true;
  while (fatal_events == 0) host.engine().TryRunOnce();
  EXPECT_EQ(host.state(), transport::QpState::kError);
  for (int i = 0; i < 100; ++i) {
    host.engine().TryRunOnce();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(fatal_events, 1);
}

}  // namespace
}  // namespace uroce::nic
