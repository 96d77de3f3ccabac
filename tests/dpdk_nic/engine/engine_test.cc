#include "dpdk_nic/engine/engine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/dpdk_nic/engine/engine_host.h"

namespace uroce::nic {
namespace {

using transport::Completion;
using transport::CompletionStatus;
using transport::Endpoint;
using transport::QpState;
using transport::SendOpcode;
using transport::Status;

void FillRandomly(EngineHost& host, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t>& memory = host.memory();
  std::generate(memory.begin(), memory.end(), [&] { return static_cast<uint8_t>(random()); });
  host.Publish();
}

// Compares a piece of the memory of two hosts.
bool AreEqual(EngineHost& a, size_t offset_a, EngineHost& b, size_t offset_b, size_t bytes) {
  const bool equal = memcmp(a.memory().data() + offset_a, b.memory().data() + offset_b, bytes) == 0;
  a.Publish();
  b.Publish();
  return equal;
}

bool AllSucceeded(const std::vector<Completion>& completions) {
  return std::all_of(completions.begin(), completions.end(),
                     [](const Completion& c) { return c.status == CompletionStatus::kSuccess; });
}

// Counts completion events as the application's event channel would.
class EventCounter {
 public:
  EngineOptions::EventSink sink() {
    return [this](const transport::Event& event) {
      if (event.type != transport::EventType::kCompletion) return;
      const std::lock_guard lock(mutex_);
      ++events_;
      changed_.notify_all();
    };
  }
  // Blocks until one more event has come.
  bool Wait() {
    std::unique_lock lock(mutex_);
    ++waited_for_;
    return changed_.wait_for(lock, std::chrono::seconds(60),
                             [this] { return events_ >= waited_for_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t events_ = 0;
  uint64_t waited_for_ = 0;
};

TEST(EngineTest, EveryOperationMovesItsDataBetweenTwoPollers) {
  EnginePair pair;
  FillRandomly(pair.a, 1);
  FillRandomly(pair.b, 2);
  constexpr uint32_t kBytes = 100'000;

  ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, kBytes), Status::kOk);
  EXPECT_TRUE(AllSucceeded(pair.a.Poll(1)));
  EXPECT_TRUE(AreEqual(pair.a, 0, pair.b, 0, kBytes));

  ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaRead, 200'000, kBytes), Status::kOk);
  EXPECT_TRUE(AllSucceeded(pair.a.Poll(1)));
  EXPECT_TRUE(AreEqual(pair.a, 200'000, pair.b, 200'000, kBytes));

  ASSERT_EQ(pair.b.PostReceive(400'000, kBytes), Status::kOk);
  ASSERT_EQ(pair.a.Post(SendOpcode::kSend, 500'000, kBytes), Status::kOk);
  const auto received = pair.b.Poll(1);
  ASSERT_TRUE(AllSucceeded(received));
  EXPECT_EQ(received[0].byte_length, kBytes);
  EXPECT_TRUE(AreEqual(pair.a, 500'000, pair.b, 400'000, kBytes));
  EXPECT_TRUE(AllSucceeded(pair.a.Poll(1)));
}

// One-sided traffic into a program that computes and never polls.
TEST(EngineTest, ProgressThreadServesAProgramThatNeverPolls) {
  EnginePair pair;
  FillRandomly(pair.a, 3);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, 50'000), Status::kOk);
    ASSERT_TRUE(AllSucceeded(pair.a.Poll(1)));
    if (round % 10 == 0) usleep(30'000);  // long enough for the progress thread to fall asleep
  }
  EXPECT_TRUE(AreEqual(pair.a, 0, pair.b, 0, 50'000));
}

TEST(EngineTest, ProgressThreadsAloneCompleteAPostedRead) {
  EnginePair pair;
  FillRandomly(pair.b, 4);
  ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaRead, 0, 1'000'000), Status::kOk);
  EXPECT_TRUE(AllSucceeded(pair.a.WaitWithoutDriving(1)));
  EXPECT_TRUE(AreEqual(pair.a, 0, pair.b, 0, 1'000'000));
}

TEST(EngineTest, RetransmissionTimersRunWithoutPolling) {
  EngineHost lonely;
  ConnectionInfo nobody = lonely.info();
  nobody.qpn = {transport::kMaxQpn / 2};
  lonely.Connect(nobody, /*timeout=*/8, /*retry_count=*/3);  // 1 ms
  usleep(50'000);                                            // the progress thread is asleep by now
  ASSERT_EQ(lonely.Post(SendOpcode::kSend, 0, 4), Status::kOk);
  const auto completions = lonely.WaitWithoutDriving(1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(lonely.state(), QpState::kError);
  EXPECT_GT(lonely.engine().port_counters().transmit_dropped_no_link, 3u);
}

TEST(EngineTest, QueuePairsOfOneEngineTalkWithoutAWire) {
  EngineHost host;
  host.Connect(host.info());  // to itself
  FillRandomly(host, 5);
  ASSERT_EQ(host.PostReceive(0, 300'000), Status::kOk);
  ASSERT_EQ(host.Post(SendOpcode::kSend, 500'000, 300'000), Status::kOk);
  EXPECT_TRUE(AllSucceeded(host.Poll(2)));
  EXPECT_TRUE(AreEqual(host, 0, host, 500'000, 300'000));
  EXPECT_EQ(host.engine().port_counters().transmit_dropped_no_link, 0u);
}

TEST(EngineTest, IdleEnginesUseNoProcessor) {
  EnginePair pair;
  ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, 1'000), Status::kOk);
  ASSERT_TRUE(AllSucceeded(pair.a.Poll(1)));
  // Two progress threads that wake every millisecond would switch 2000 times a second. Progress
  // threads fall asleep only after a while.
  const auto rest = [] {
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    usleep(1'000'000);
    getrusage(RUSAGE_SELF, &after);
    return after.ru_nvcsw - before.ru_nvcsw <= 50;
  };
  bool rested = false;
  for (int second = 0; second < 60 && !rested; ++second) rested = rest();
  EXPECT_TRUE(rested);
}

// A lost wake-up would block both programs for ever.
TEST(EngineTest, NoWakeUpIsLostBetweenProgramsThatWaitForEvents) {
  EventCounter events_a, events_b;
  EngineHost a(Engine::Options{.event_sink = events_a.sink()});
  EngineHost b(Engine::Options{.event_sink = events_b.sink()});
  ConnectBoth(a, b);

  constexpr int kRounds = 2'000;
  std::thread other([&] {
    for (int received = 0, sent = 0; received < kRounds || sent < kRounds;) {
      ASSERT_TRUE(events_b.Wait()) << received << " received, " << sent << " sent";
      b.Arm();  // before polling, so that a completion after the last poll raises an event
      for (Completion completion; b.cq().Poll({&completion, 1}) == 1;) {
        ASSERT_EQ(completion.status, CompletionStatus::kSuccess);
        if (completion.opcode == transport::CompletionOpcode::kSend) {
          ++sent;
          continue;
        }
        ++received;
        ASSERT_EQ(b.PostReceive(0, 64), Status::kOk);
        ASSERT_EQ(b.Post(SendOpcode::kSend, 64, 64), Status::kOk);
      }
    }
  });
  ASSERT_EQ(b.PostReceive(0, 64), Status::kOk);
  b.Arm();
  std::mt19937 random(6);
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_EQ(a.PostReceive(0, 64), Status::kOk);
    ASSERT_EQ(a.Post(SendOpcode::kSend, 64, 64), Status::kOk);
    EXPECT_TRUE(AllSucceeded(a.WaitWithoutDriving(2)));
    // The next round starts at once, when the progress threads just fall asleep, or when they are
    // asleep.
    usleep(static_cast<useconds_t>(random() % (i % 50 == 0 ? 30'000 : 120)));
  }
  other.join();
}

// The program switches between driving and leaving it to the progress thread at random moments.
TEST(EngineTest, NothingIsLostWhenAProgramStopsAndStartsPolling) {
  EnginePair pair;
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, 20'000), Status::kOk);
    const bool drives = random() % 2 == 0;
    ASSERT_TRUE(AllSucceeded(drives ? pair.a.Poll(1) : pair.a.WaitWithoutDriving(1)));
    for (auto polls = random() % 2'000; polls > 0; --polls) {
      (random() % 2 == 0 ? pair.a : pair.b).engine().TryRunOnce();
    }
    if (round % 20 == 0) usleep(static_cast<useconds_t>(random() % 40'000));
  }
}

TEST(EngineTest, ManyThreadsShareOneEngine) {
  EnginePair pair;
  constexpr int kThreads = 4;
  constexpr uint32_t kPosts = 500;
  std::atomic<uint32_t> completed = 0;
  std::mutex poll_mutex;  // as ibv_poll_cq has one
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint32_t posted = 0;
      while (completed < kThreads * kPosts) {
        const size_t offset = static_cast<size_t>(t) * 100'000;
        if (posted < kPosts && pair.a.Post(SendOpcode::kRdmaWrite, offset, 5'000) == Status::kOk) {
          ++posted;
        }
        Completion completion;
        std::unique_lock lock(poll_mutex);
        if (pair.a.cq().Poll({&completion, 1}) == 1) {
          ++completed;
          EXPECT_EQ(completion.status, CompletionStatus::kSuccess);
          continue;
        }
        lock.unlock();
        pair.a.engine().TryRunOnce();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed, kThreads * kPosts);
}

// The processor that the thread of this name is bound to; -1 unless there is exactly one such
// thread and it is bound to exactly one processor.
int ProcessorOfThread(const std::string& name) {
  int processor = -1;
  int found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm != name) continue;
    ++found;
    cpu_set_t bound;
    const pid_t thread = std::stoi(task.path().filename());
    if (sched_getaffinity(thread, sizeof bound, &bound) != 0 || CPU_COUNT(&bound) != 1) return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &bound)) processor = cpu;
    }
  }
  return found == 1 ? processor : -1;
}

TEST(EngineTest, DedicatedThreadsOfADeviceTakeProcessorsFromTheLastOneOn) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> processors;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CPU_ISSET(cpu, &allowed)) processors.push_back(cpu);
  }
  for (uint32_t number = 0; number < processors.size() + 1; ++number) {
    const EngineHost host(Engine::Options{.mode = ProgressMode::kDedicated, .number = number});
    const int expected = processors[number % processors.size()];
    for (int i = 0; i < 1'000 && ProcessorOfThread("uroce-engine") != expected; ++i) usleep(1'000);
    EXPECT_EQ(ProcessorOfThread("uroce-engine"), expected);
  }
}

TEST(EngineTest, DedicatedThreadLetsVerbsIn) {
  EnginePair pair([] { return Engine::Options{.mode = ProgressMode::kDedicated}; });
  FillRandomly(pair.a, 8);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, 10'000), Status::kOk);
    ASSERT_TRUE(AllSucceeded(pair.a.Poll(1)));
  }
  EXPECT_TRUE(AreEqual(pair.a, 0, pair.b, 0, 10'000));
}

TEST(EngineTest, ForkedChildHasADeadCopyAndTheParentGoesOn) {
  EnginePair pair;
  const pid_t child = fork();
  if (child == 0) {
    const bool dead = pair.a.engine().in_forked_child() && !pair.a.engine().TryRunOnce();
    const bool posted = pair.a.Post(SendOpcode::kRdmaWrite, 0, 100) == Status::kOk;
    _exit(dead && posted ? 0 : 1);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(pair.a.engine().in_forked_child());
  ASSERT_EQ(pair.a.Post(SendOpcode::kRdmaWrite, 0, 100), Status::kOk);
  EXPECT_TRUE(AllSucceeded(pair.a.Poll(1)));
}

TEST(EngineTest, ForkedChildCanDestroyItsDeadCopy) {
  auto pair = std::make_unique<EnginePair>();
  const pid_t child = fork();
  if (child == 0) {
    pair.reset();
    _exit(0);
  }
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(pair->a.Post(SendOpcode::kRdmaWrite, 0, 100), Status::kOk);
  EXPECT_TRUE(AllSucceeded(pair->a.Poll(1)));
}

// A port that receives each frame that it sends.
class EchoPort final : public PacketPort {
 public:
  ReceivedFrame Receive() override { return {std::span(frame_).first(frame_bytes_)}; }
  void ReleaseReceived() override { frame_bytes_ = 0; }
  transport::FrameRoom AcquireTransmit(transport::Route) override {
    return frame_bytes_ == 0 ? std::span<uint8_t>(frame_) : std::span<uint8_t>();
  }
  void CommitTransmit(size_t frame_bytes) override { frame_bytes_ = frame_bytes; }
  void Flush() override {}
  transport::MacAddress mac() const override { return {}; }
  uint32_t mtu() const override { return 1'500; }
  bool link_up() const override { return true; }

 private:
  std::array<uint8_t, transport::kMaxFrameBytes> frame_{};
  size_t frame_bytes_ = 0;
};

// Sends one ARP frame each time an address is resolved; on receiving one it reports a neighbour's
// change.
class Gossip final : public StaticNeighbors {
 public:
  static constexpr transport::MacAddress kMac = {2, 1, 2, 3, 4, 5};
  static transport::Gid Subject() { return transport::Gid::FromIpv4({10, 9, 8, 7}); }

  std::optional<transport::MacAddress> Resolve(transport::Time, const transport::Gid&) override {
    speaks_ = true;
    return kMac;
  }
  bool HasTransmit() const override { return speaks_; }
  size_t PollTransmit(transport::Time, std::span<uint8_t> out) override {
    speaks_ = false;
    std::fill_n(out.begin(), 60, uint8_t{0});
    out[12] = 0x08;  // ARP
    out[13] = 0x06;
    return 60;
  }
  bool OnFrame(transport::Time, std::span<const uint8_t>) override { return heard_ = true; }
  std::optional<Neighbor> TakeChange() override {
    if (!std::exchange(heard_, false)) return std::nullopt;
    return Neighbor{Subject(), kMac};
  }

 private:
  bool speaks_ = false;
  bool heard_ = false;
};

TEST(EngineTest, ChangedNeighborIsReportedToTheSink) {
  std::atomic<int> told{0};
  Engine engine(std::make_unique<EchoPort>(), {},
                {.neighbor_sink =
                     [&](const transport::Gid& gid, const transport::MacAddress& mac) {
                       EXPECT_EQ(gid, Gossip::Subject());
                       EXPECT_EQ(mac, Gossip::kMac);
                       ++told;
                     },
                 .link_layer = std::make_unique<Gossip>()});
  for (int news = 1; news <= 2; ++news) {
    EXPECT_TRUE(engine.ResolveNeighbor(Gossip::Subject(), {}).has_value());
    while (told != news) engine.TryRunOnce();
  }
}

TEST(EngineTest, PointToPointNeighborIsKnownWithoutAsking) {
  EngineHost host;
  const transport::MacAddress expected = {2, 0x75, 10, 0, 0, 9};
  EXPECT_EQ(host.engine().ResolveNeighbor(transport::Gid::FromIpv4({10, 0, 0, 9}), {}), expected);
}

}  // namespace
}  // namespace uroce::nic
