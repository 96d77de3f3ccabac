#include "dpdk_nic/engine/engine_lock.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace uroce::nic {
namespace {

TEST(EngineLockTest, OneThreadHoldsTheLockAtATime) {
  EngineLock lock;
  uint64_t count = 0;  // not atomic: a race would lose counts
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20'000; ++i) {
        if (t % 2 == 0) {
          lock.Lock();
        } else {
          while (!lock.TryLock()) sched_yield();
        }
        ++count;
        lock.Unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 80'000u);
}

TEST(EngineLockTest, TryLockGivesWayToAThreadThatWaits) {
  EngineLock lock;
  lock.Lock();
  std::atomic<bool> had_it{false};
  std::thread waiting([&] {
    lock.Lock();
    had_it = true;
    lock.Unlock();
  });
  // Until the other thread waits, this thread gets the lock back each time.
  do {
    lock.Unlock();
  } while (!had_it && lock.TryLock());
  waiting.join();
  EXPECT_TRUE(had_it);
  EXPECT_TRUE(lock.TryLock());
}

TEST(EngineLockTest, IsHeldWhileItOrTheOneItHasJoinedIs) {
  EngineLock first, second;
  EXPECT_FALSE(first.is_held());
  first.Lock();
  EXPECT_TRUE(first.is_held());
  EXPECT_FALSE(second.is_held());
  second.Lock();
  first.Join(second);
  first.Unlock();
  EXPECT_FALSE(first.is_held());
  second.Lock();
  EXPECT_TRUE(first.is_held());
  second.Unlock();
}

// A thread that waits for a lock while that lock joins another one gets the other one.
TEST(EngineLockTest, LocksThatHaveJoinedAreOne) {
  EngineLock first;
  EngineLock second;
  uint64_t of_first = 0;   // counted under the first lock until the locks have joined
  uint64_t of_second = 0;  // counted under the second lock until then
  bool are_one = false;
  std::atomic<uint64_t> counted_after{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      EngineLock& lock = t % 2 == 0 ? first : second;
      while (counted_after < 20'000) {
        if (t < 2) {
          lock.Lock();
        } else if (!lock.TryLock()) {
          sched_yield();
          continue;
        }
        if (are_one) {
          // All threads share one count now: a race would lose counts.
          ++of_first;
          ++counted_after;
        } else {
          ++(t % 2 == 0 ? of_first : of_second);
        }
        lock.Unlock();
      }
    });
  }
  while (true) {
    first.Lock();
    second.Lock();
    if (of_first > 1'000 && of_second > 1'000) break;
    second.Unlock();
    first.Unlock();
    sched_yield();
  }
  const uint64_t before = of_first;
  are_one = true;
  EXPECT_FALSE(second.has_joined());
  second.Join(first);
  EXPECT_TRUE(second.has_joined());
  EXPECT_FALSE(first.has_joined());
  first.Unlock();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(of_first - before, counted_after);
  // Every thread ended, and the lock is free.
  ASSERT_TRUE(second.TryLock());
  EXPECT_FALSE(first.TryLock());
  second.Unlock();
  EXPECT_TRUE(first.TryLock());
}

// A child forked while another thread waits inherits the lock's count of waiters, but not the
// thread.
TEST(EngineLockTest, ForkedChildForgetsThreadsThatWait) {
  EngineLock lock;
  lock.Lock();
  std::thread waiting([&] {
    lock.Lock();
    lock.Unlock();
  });
  enum Result { kFree, kHeldBack, kFreeWhenForgotten };
  int result = kFree;
  while (result == kFree) {  // until the thread counts as waiting
    const pid_t child = fork();
    if (child == 0) {
      lock.Unlock();
      if (lock.TryLock()) _exit(kFree);
      lock.ForgetWaiters();
      _exit(lock.TryLock() ? kFreeWhenForgotten : kHeldBack);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    result = WEXITSTATUS(status);
  }
  EXPECT_EQ(result, kFreeWhenForgotten);
  lock.Unlock();
  waiting.join();
}

bool RunOnFirstAllowedProcessor() {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof one, &one) == 0;
  }
  return false;
}

// How often the thread has slept so far.
long Sleeps(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
  const std::string key = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(status, line);) {
    if (line.compare(0, key.size(), key) == 0) return std::stol(line.substr(key.size()));
  }
  return -1;
}

// The owner of the lock and a real-time thread that waits for it share one processor. The owner
// does not unlock before that thread has slept.
TEST(EngineLockTest, RealTimeThreadThatWaitsLeavesTheProcessorToTheHolder) {
  constexpr auto kMuchTooLong = std::chrono::seconds(60);
  EngineLock lock;
  std::atomic<bool> held{false};
  std::atomic<pid_t> waiting{0};
  long sleeps_before = 0;
  bool slept = false;
  std::thread holder([&] {
    EXPECT_TRUE(RunOnFirstAllowedProcessor());
    lock.Lock();
    held = true;
    while (waiting == 0) sched_yield();
    const auto give_up = std::chrono::steady_clock::now() + kMuchTooLong;
    while (!slept && std::chrono::steady_clock::now() < give_up) {
      slept = Sleeps(waiting) > sleeps_before;
    }
    lock.Unlock();
  });
  std::thread real_time([&] {
    EXPECT_TRUE(RunOnFirstAllowedProcessor());
    while (!held) sched_yield();
    sched_param parameters{};
    parameters.sched_priority = sched_get_priority_min(SCHED_FIFO);
    // Without the right to SCHED_FIFO this stays an ordinary thread, which must sleep as well.
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters);
    sleeps_before = Sleeps(gettid());
    waiting = gettid();
    lock.Lock();
    lock.Unlock();
  });
  real_time.join();
  holder.join();
  EXPECT_TRUE(slept);
}

}  // namespace
}  // namespace uroce::nic
