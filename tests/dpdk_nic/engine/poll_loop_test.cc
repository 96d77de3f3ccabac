// The loop of the threads that drive engines and switches, with a scripted source.
#include "dpdk_nic/engine/poll_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {
namespace {

using Kind = SleepPlan::Kind;

// Has work for some passes, then none. Records the calls of the loop.
class FakeSource final : public PollLoop::Source {
 public:
  struct End {
    Kind kind;
    transport::Duration slept;
  };

  template <class F>
  auto Locked(F f) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return f();
  }

  bool RunPass() override {
    return Locked([&] {
      if (on_pass) on_pass();
      ++passes;
      return work > 0 && work-- > 0;
    });
  }
  SleepPlan PlanSleep(transport::Time latest) override {
    const SleepPlan result = Locked([&] {
      ++plans;
      latest_sleep = latest;
      return plan;
    });
    planned_at_ = Now();
    return result;
  }
  void EndSleep(const SleepPlan& ended) override {
    const transport::Duration slept = Now() - planned_at_;
    Locked([&] { ends.push_back({ended.kind, slept}); });
  }
  ProgressPolicy::Company company() override {
    return Locked([&] { return company_seen; });
  }
  void SetStandsBy(bool does) override {
    Locked([&] { (does ? stand_bys : stand_by_ends) += 1; });
  }

  // Waits until `happened`, evaluated under the lock, holds.
  void Await(const std::function<bool()>& happened) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, happened);
  }
  SleepPlan plan{Kind::kSleep, transport::kNever};
  std::function<void()> on_pass;
  int work = 0;
  ProgressPolicy::Company company_seen;
  int passes = 0;
  int plans = 0;
  transport::Time latest_sleep;
  int stand_bys = 0;
  int stand_by_ends = 0;
  std::vector<End> ends;

 private:
  transport::Time planned_at_;  // used by the thread itself
  std::mutex mutex_;
  std::condition_variable changed_;
};

class PollLoopTest : public testing::Test {
 protected:
  ~PollLoopTest() override { loop_.Stop(); }
  void Start() { ASSERT_EQ(loop_.Start("poll-loop-test"), 0); }

  FakeSource source_;
  PollLoop loop_{source_};
};

TEST_F(PollLoopTest, AllWorkIsDoneBeforeTheThreadSleeps) {
  source_.work = 100;
  Start();
  source_.Await([&] { return source_.plans == 1; });
  EXPECT_GT(source_.Locked([&] { return source_.passes; }), 100);
  EXPECT_EQ(source_.Locked([&] { return source_.ends.size(); }), 0u);
}

TEST_F(PollLoopTest, WakeEndsASleepAndPassesFollow) {
  Start();
  source_.Await([&] { return source_.plans == 1; });
  const int before = source_.Locked([&] { return source_.passes; });
  loop_.Wake();
  source_.Await([&] { return source_.ends.size() == 1 && source_.passes > before; });
}

TEST_F(PollLoopTest, ReadableDescriptorEndsASleep) {
  const UniqueFd first(eventfd(0, EFD_CLOEXEC)), second(eventfd(0, EFD_CLOEXEC));
  source_.plan.fds = {first.get(), second.get()};
  Start();
  source_.Await([&] { return source_.plans == 1; });
  ASSERT_EQ(eventfd_write(second.get(), 1), 0);
  source_.Await([&] { return !source_.ends.empty(); });
}

TEST_F(PollLoopTest, TimeThatHasComeEndsASleep) {
  source_.plan.until = transport::Time{0};
  Start();
  source_.Await([&] { return source_.ends.size() >= 3; });
}

// The thread that keeps this one from its pass may need the processor.
TEST_F(PollLoopTest, WorkThatIsDueIsNotWaitedForWithoutAPause) {
  source_.plan = {Kind::kNap, transport::Time{0}};
  Start();
  source_.Await([&] { return source_.ends.size() >= 50; });
  loop_.Stop();
  for (size_t i = 0; i + 1 < source_.ends.size(); ++i) {  // Stop ends the last one
    EXPECT_GE(source_.ends[i].slept, transport::Microseconds(20)) << i;
  }
}

TEST_F(PollLoopTest, NapEndsByItself) {
  source_.plan.kind = Kind::kNap;
  Start();
  source_.Await([&] { return source_.ends.size() >= 10; });
  EXPECT_EQ(source_.Locked([&] { return source_.ends[9].kind; }), Kind::kNap);
}

TEST_F(PollLoopTest, PlanNotToSleepIsFollowedByPasses) {
  source_.plan.kind = Kind::kNone;
  Start();
  source_.Await([&] { return source_.ends.size() >= 3 && source_.passes > 3; });
  EXPECT_EQ(source_.Locked([&] { return source_.ends[0].kind; }), Kind::kNone);
}

uint64_t SliceOfThisThread() {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
  } attributes{};
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0), 0);
  return attributes.runtime_ns;
}

// With a short slice the thread does not wait behind the whole slice of another thread that spins.
TEST_F(PollLoopTest, PollingThreadHasShorterSlicesThanOrdinaryThreads) {
  const uint64_t ordinary = SliceOfThisThread();
  if (ordinary == 0) GTEST_SKIP() << "the kernel has no slices to choose: it is older than 6.12";
  std::atomic<uint64_t> slice{0};
  source_.on_pass = [&] { slice.store(SliceOfThisThread()); };
  Start();
  source_.Await([&] { return source_.passes > 0; });
  EXPECT_EQ(slice.load(), 100'000u);
  EXPECT_LT(slice.load(), ordinary);
}

TEST_F(PollLoopTest, StandsByWhileTheApplicationDrivesAndEndsWhenItStops) {
  source_.work = 1'000'000'000;
  source_.on_pass = [&] {
    if (source_.stand_bys == 0) source_.company_seen.application_work += 4;
  };
  Start();
  source_.Await([&] { return source_.stand_bys == 1 && source_.stand_by_ends == 1; });
}

TEST_F(PollLoopTest, WakeEndsStandingByWhenTheApplicationWaits) {
  source_.company_seen.application_work = 1'000;
  source_.company_seen.is_in_engine = true;  // for ever
  Start();
  source_.Await([&] { return source_.stand_bys == 1; });
  source_.Locked([&] { source_.company_seen.application_waits = true; });
  loop_.Wake();
  source_.Await([&] { return source_.stand_by_ends == 1 && source_.plans == 1; });
}

TEST_F(PollLoopTest, FirstSleepAfterWorkIsBounded) {
  source_.work = 1;
  Start();
  source_.Await([&] { return source_.plans == 1; });
  EXPECT_LT(source_.Locked([&] { return source_.latest_sleep; }),
            Now() + transport::Milliseconds(1'000));
}

TEST_F(PollLoopTest, SpinningLoopNeverSleeps) {
  ASSERT_EQ(loop_.StartSpinning("poll-loop-test", std::nullopt), 0);
  source_.Await([&] { return source_.passes > 10'000; });
  EXPECT_EQ(source_.Locked([&] { return source_.plans; }), 0);
}

TEST_F(PollLoopTest, StopEndsASleepWithoutEnd) {
  Start();
  source_.Await([&] { return source_.plans == 1; });
  loop_.Stop();
  EXPECT_FALSE(loop_.is_running());
}

}  // namespace
}  // namespace uroce::nic
