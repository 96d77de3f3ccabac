#include "dpdk_nic/engine/polling_pause.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
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

}  // namespace
}  // namespace uroce::nic
