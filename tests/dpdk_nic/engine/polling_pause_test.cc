#include "dpdk_nic/engine/polling_pause.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

bool HasOneProcessor() { return sysconf(_SC_NPROCESSORS_ONLN) == 1; }

int PollsUntilYield(PollingPause& pause) {
  int polls = 1;
  while (!pause.PollFailed()) ++polls;
  return polls;
}

TEST(PollingPauseTest, SpinsFirstAndThenYieldsAfterEveryPoll) {
  if (HasOneProcessor()) GTEST_SKIP() << "with one processor it yields at once";
  PollingPause pause;
  EXPECT_GT(PollsUntilYield(pause), 1);
  EXPECT_EQ(PollsUntilYield(pause), 1);
  EXPECT_EQ(PollsUntilYield(pause), 1);
}

constexpr int kMaxTries = 100'000;

// Polls succeed and fail in turn, until `polls` in a row have failed without a yield.
bool ComesToSpinFor(PollingPause& pause, int polls) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    pause.PollWorked();
    if (PollsUntilYield(pause) == polls) return true;
  }
  return false;
}

// Even on a busy machine one of the yields finds that no other thread wants the processor.
TEST(PollingPauseTest, SpinsAgainAfterAPollThatWorked) {
  if (HasOneProcessor()) GTEST_SKIP() << "with one processor it yields at once";
  PollingPause pause;
  const int polls = PollsUntilYield(pause);
  EXPECT_TRUE(ComesToSpinFor(pause, polls));
}

// Binds this thread, and those that it starts, to one processor.
class OnOneProcessor {
 public:
  OnOneProcessor() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OnOneProcessor() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

// An MPI rank is bound to a processor before it polls; its peers are on others. The test has a
// process of its own, as PollingPause reads the set of processors once.
TEST(PollingPauseDeathTest, ProcessThatIsBoundToAProcessorSpinsFirst) {
  if (HasOneProcessor()) GTEST_SKIP() << "with one processor it yields at once";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto polls_when_bound = [] {
    const OnOneProcessor confined;
    PollingPause pause;
    return PollsUntilYield(pause);
  };
  EXPECT_EXIT(std::exit(polls_when_bound() > 1 ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST(PollingPauseTest, YieldsAtOnceOnAProcessorThatAnotherThreadWants) {
  if (HasOneProcessor()) GTEST_SKIP() << "with one processor it yields at once";
  PollingPause pause;
  const int polls = PollsUntilYield(pause);
  const OnOneProcessor confined;
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load()) sched_yield();
  });
  EXPECT_GT(polls, 1);
  EXPECT_TRUE(ComesToSpinFor(pause, 1));
  done.store(true);
  other.join();
}

// Whether a yield finds the processor hogged by a thread on it that repeats `round`.
template <class Round>
bool IsHoggedBy(Round round) {
  PollingPause pause;
  const OnOneProcessor confined;
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done.load()) round();
  });
  bool is_hogged = false;
  for (int yields = 0; yields < 1'000 && !is_hogged; ++yields) {
    PollsUntilYield(pause);
    is_hogged = pause.IsHogged(Now());
  }
  done.store(true);
  other.join();
  EXPECT_FALSE(pause.IsHogged(Now() + transport::Milliseconds(161))) << "for ever";
  return is_hogged;
}

TEST(PollingPauseTest, ThreadThatNeverYieldsHogsTheProcessor) {
  if (HasOneProcessor()) GTEST_SKIP() << "one that has no other place to go";
  EXPECT_TRUE(IsHoggedBy([] {}));
}

// Two threads that pass a number back and forth on one processor: each yield runs the other one.
TEST(PollingPauseTest, ThreadsThatShareAProcessorTakeTurns) {
  const OnOneProcessor confined;
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
