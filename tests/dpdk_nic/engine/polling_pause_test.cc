#include "dpdk_nic/engine/polling_pause.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace uroce::nic {
namespace {

int AllowedProcessors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int PollsUntilYield(PollingPause& pause) {
  int polls = 1;
  while (!pause.PollFailed()) ++polls;
  return polls;
}

TEST(PollingPauseTest, SpinsFirstAndThenYieldsAfterEveryPoll) {
  if (AllowedProcessors() == 1) GTEST_SKIP() << "with one processor it yields at once";
  PollingPause pause;
  EXPECT_GT(PollsUntilYield(pause), 1);
  EXPECT_EQ(PollsUntilYield(pause), 1);
  EXPECT_EQ(PollsUntilYield(pause), 1);
}

TEST(PollingPauseTest, SpinsAgainAfterAPollThatWorked) {
  if (AllowedProcessors() == 1) GTEST_SKIP() << "with one processor it yields at once";
  PollingPause pause;
  const int polls = PollsUntilYield(pause);
  pause.PollWorked();
  EXPECT_EQ(PollsUntilYield(pause), polls);
}

// Two threads that pass a number back and forth on one processor: each yield runs the other one.
TEST(PollingPauseTest, ThreadsThatShareAProcessorTakeTurns) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // the thread below inherits it

  constexpr int kTurns = 20'000;
  std::atomic<int> turn{0};
  const auto play = [&turn](int parity) {
    PollingPause pause;
    for (int next = parity; next < kTurns;) {
      if (turn.load() != next) {
        pause.PollFailed();
        continue;
      }
      pause.PollWorked();
      turn.store(next + 1);
      next += 2;
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), kTurns);
  sched_setaffinity(0, sizeof before, &before);
}

long SleepsOfThisThread() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

TEST(PollingPauseTest, RealTimeThreadThatIsRefusedForLongSleeps) {
  int refused = 0;
  long sleeps = 0;
  std::thread real_time([&] {
    sched_param parameters{};
    parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
    refused = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
    if (refused != 0) return;
    PollingPause pause;
    const long before = SleepsOfThisThread();
    for (int i = 0; i < 20'000; ++i) pause.PollRefused();
    sleeps = SleepsOfThisThread() - before;
  });
  real_time.join();
  if (refused != 0) GTEST_SKIP() << "SCHED_FIFO: " << strerror(refused);
  EXPECT_GE(sleeps, 1);
}

}  // namespace
}  // namespace uroce::nic
