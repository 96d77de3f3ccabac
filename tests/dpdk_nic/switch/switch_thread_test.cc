// The switch with its thread: nothing is lost between spinning and sleeping, and the control
// thread may do anything meanwhile.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dpdk_nic/switch/switch.h"
#include "tests/dpdk_nic/switch/fake_wire.h"
#include "tests/dpdk_nic/switch/ring_process.h"

namespace uroce::nic {
namespace {

using control::Block;

// Waits until `happened` holds; false after a minute, which is long for any machine.
bool Eventually(const std::function<bool()>& happened) {
  constexpr std::chrono::seconds kTimeout(60);
  const auto give_up = std::chrono::steady_clock::now() + kTimeout;
  while (!happened()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

int SwitchThreads() {
  int threads = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    threads += name == "uroce-switch";
  }
  return threads;
}

class SwitchThreadTest : public testing::Test {
 protected:
  Switch::Config ConfigWithWire() {
    Switch::Config config;
    config.wire = std::make_unique<FakeWire>(cable_);
    config.gids = {kOurIpv4, kOurIpv6};
    config.listener.on_neighbor = [this](const control::Neighbor& neighbor) {
      const std::lock_guard guard(mutex_);
      neighbors_.push_back(neighbor);
    };
    config.listener.on_wire_state = [this](bool is_up) { wire_is_up_ = is_up; };
    return config;
  }
  void Create(Switch::Config config) {
    auto created = Switch::Create(std::move(config));
    ASSERT_TRUE(created.ok()) << created.error();
    switch_ = std::move(created).value();
  }
  void Connect(Block block, RingProcess& process) {
    ASSERT_EQ(switch_->ConnectUplink(block, process.TakeSwitchEnd()), 0);
  }

  std::mutex mutex_;
  std::vector<control::Neighbor> neighbors_;
  std::atomic<bool> wire_is_up_{false};
  std::shared_ptr<FakeCable> cable_ = std::make_shared<FakeCable>();
  std::unique_ptr<Switch> switch_;
};

TEST_F(SwitchThreadTest, ThreadStartsWithTheWireOrTheFirstUplink) {
  Create({});
  EXPECT_EQ(SwitchThreads(), 0);
  RingProcess alice;
  Connect(kAlice, alice);
  EXPECT_TRUE(Eventually([] { return SwitchThreads() == 1; }));
  switch_.reset();
  EXPECT_TRUE(Eventually([] { return SwitchThreads() == 0; }));
  Create(ConfigWithWire());
  EXPECT_TRUE(Eventually([] { return SwitchThreads() == 1; }));
}

// Waits for each frame, and pauses before the next so that the thread often falls asleep.
TEST_F(SwitchThreadTest, EveryFrameArrivesWhetherTheThreadSleepsOrNot) {
  Create(ConfigWithWire());
  RingProcess alice;
  Connect(kAlice, alice);
  ASSERT_EQ(switch_->Declare(kAlice, {QpOf(kAlice, 5), {42}, kFarIpv4}), 0);
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(alice.Send(ToWire(kRcSendOnly).Build()));
    ASSERT_TRUE(Eventually([&] { return cable_->TakeSent().size() == 1; })) << i;
    usleep(static_cast<useconds_t>(i % 7) * 30);
    cable_->Deliver(RoceSpec{}.Build());
    ASSERT_TRUE(Eventually([&] { return alice.Receive().size() == 1; })) << i;
    usleep(static_cast<useconds_t>(i % 5) * 400);
  }
  EXPECT_EQ(switch_->counters().frames_to_wire, 300u);
  EXPECT_EQ(switch_->counters().frames_from_wire, 300u);
}

TEST_F(SwitchThreadTest, WireWithoutInterruptsIsServed) {
  cable_ = std::make_shared<FakeCable>(/*can_wake=*/false);
  Create(ConfigWithWire());
  RingProcess alice;
  Connect(kAlice, alice);
  for (int i = 0; i < 20; ++i) {
    cable_->Deliver(RoceSpec{}.Build());
    ASSERT_TRUE(Eventually([&] { return alice.Receive().size() == 1; }));
    ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
    ASSERT_TRUE(Eventually([&] { return cable_->TakeSent().size() == 1; }));
    usleep(2'000);
  }
}

TEST_F(SwitchThreadTest, FullWireIsTriedAgain) {
  cable_->room = 0;
  Create(ConfigWithWire());
  RingProcess alice;
  Connect(kAlice, alice);
  ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
  usleep(10'000);
  EXPECT_EQ(cable_->sent_count(), 0u);
  cable_->room = 1;
  EXPECT_TRUE(Eventually([&] { return cable_->sent_count() == 1; }));
}

// The sleeping thread makes no pass, except for a look at the carrier each second.
TEST_F(SwitchThreadTest, IdleSwitchSleeps) {
  Create(ConfigWithWire());
  RingProcess alice;
  Connect(kAlice, alice);
  ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
  ASSERT_TRUE(Eventually([&] { return cable_->sent_count() == 1; }));
  EXPECT_TRUE(Eventually([&] {
    const int flushes = cable_->flushes;
    usleep(300'000);
    return cable_->flushes - flushes < 5;
  }));
}

TEST_F(SwitchThreadTest, EndOfAProcessIsNoticedWhileTheThreadSleeps) {
  Create({});
  RingProcess alice;
  auto bob = std::make_unique<RingProcess>();
  Connect(kAlice, alice);
  Connect(kBob, *bob);
  ASSERT_EQ(switch_->JoinGroup(kBob, kGroup), 0);
  usleep(20'000);
  bob.reset();
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(alice.Send(ToGroup(QpOf(kAlice, 1)).Build()));
    usleep(1'000);
    return switch_->counters().dropped_unknown_destination > 0;
  }));
}

TEST_F(SwitchThreadTest, QuestionsAreAnsweredOnTheThread) {
  Create(ConfigWithWire());
  usleep(10'000);
  switch_->Resolve(kFarIpv4);
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard guard(mutex_);
    return !neighbors_.empty();
  }));
  EXPECT_EQ(neighbors_[0].mac, MacAddressFor(kFarIpv4));
}

TEST_F(SwitchThreadTest, WireStateIsReported) {
  Create(ConfigWithWire());
  EXPECT_TRUE(Eventually([&] { return wire_is_up_.load(); }));
  cable_->is_up = false;
  EXPECT_TRUE(Eventually([&] { return !wire_is_up_.load(); }));
}

TEST_F(SwitchThreadTest, PinnedThreadServesAllTheSame) {
  Switch::Config config = ConfigWithWire();
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  config.cpu = cpu;
  Create(std::move(config));
  RingProcess alice;
  Connect(kAlice, alice);
  for (int i = 0; i < 10; ++i) {
    cable_->Deliver(RoceSpec{}.Build());
    ASSERT_TRUE(Eventually([&] { return alice.Receive().size() == 1; }));
    ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
    ASSERT_TRUE(Eventually([&] { return cable_->TakeSent().size() == 1; }));
    usleep(3'000);
  }
}

TEST_F(SwitchThreadTest, UnavailableProcessorIsAnError) {
  for (const int cpu : {-1, CPU_SETSIZE - 1, CPU_SETSIZE, 1 << 20}) {
    Switch::Config config;
    config.cpu = cpu;
    const auto created = Switch::Create(std::move(config));
    ASSERT_FALSE(created.ok());
    EXPECT_NE(created.error().find(std::to_string(cpu)), std::string::npos);
  }
}

TEST_F(SwitchThreadTest, BlocksThatNoProcessHasAreRefused) {
  Create({});
  for (const Block block : {Block{0}, Block{1'023}, Block{UINT32_MAX}}) {
    RingProcess process;
    EXPECT_EQ(switch_->ConnectUplink(block, process.TakeSwitchEnd()), EINVAL);
    EXPECT_EQ(switch_->Declare(block, {}), EINVAL);
    EXPECT_EQ(switch_->JoinGroup(block, kGroup), EINVAL);
    EXPECT_EQ(switch_->Listen(block, ListenTo(1)), EINVAL);
    EXPECT_EQ(switch_->usage(block).groups, 0u);
    switch_->Forget(block, {});
    switch_->LeaveGroup(block, kGroup);
    switch_->Unlisten(block, ListenTo(1).claim);
    switch_->Remove(block);
  }
}

// Two processes send all the time while the control thread changes everything else.
TEST_F(SwitchThreadTest, ControlThreadMayDoAnythingUnderTraffic) {
  Create(ConfigWithWire());
  ASSERT_EQ(switch_->Declare(kAlice, {QpOf(kAlice, 5), {42}, kFarIpv4}), 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> sent{0};
  RingProcess alice;
  Connect(kAlice, alice);
  std::thread sender([&] {
    const FrameBytes frame = ToWire(kRcSendOnly).Build();
    while (!stop) {
      if (alice.Send(frame)) {
        ++sent;
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::thread network([&] {
    while (!stop) {
      cable_->Deliver(RoceSpec{}.Build());
      cable_->TakeSent();
      usleep(50);
    }
  });
  for (int i = 0; i < 200; ++i) {
    RingProcess bob;
    Connect(kBob, bob);
    EXPECT_EQ(switch_->Declare(kBob, {QpOf(kBob, 1), {43}, kFarIpv4}), 0);
    EXPECT_EQ(switch_->JoinGroup(kBob, kGroup), 0);
    EXPECT_EQ(switch_->Listen(kBob, ListenTo(7)), 0);
    EXPECT_TRUE(bob.Send(ToWire(kRcSendOnly, {43}).Build()));
    switch_->Resolve(kFarIpv4);
    if (i % 3 == 0) bob.Die();
    EXPECT_EQ(switch_->usage(kBob).declared_connections, 1u);
    switch_->Remove(kBob);
    EXPECT_EQ(switch_->usage(kBob).groups, 0u);
    if (i % 16 == 0) usleep(500);
  }
  stop = true;
  sender.join();
  network.join();
  // No frame was lost: the wire takes everything, and the switch sent Bob's frames when he left.
  EXPECT_TRUE(Eventually([&] { return switch_->counters().frames_to_wire == sent + 200; }));
  EXPECT_EQ(switch_->counters().dropped_not_declared, 0u);
}

}  // namespace
}  // namespace uroce::nic
