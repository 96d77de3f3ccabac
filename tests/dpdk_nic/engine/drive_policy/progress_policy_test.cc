#include "dpdk_nic/engine/drive_policy/progress_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::kNever;
using transport::Microseconds;
using transport::Milliseconds;
using transport::Time;
using Do = ProgressPolicy::Do;
using Slept = ProgressPolicy::Slept;
using Step = ProgressPolicy::Step;

constexpr uint64_t kFastWork = 10'000;  // a millisecond

class ProgressPolicyTest : public testing::Test {
 protected:
  void SetUp() override { step_ = policy_.Begin(now_, company_); }

  void Let(Duration pass) { now_ = now_ + pass; }
  // Lets `span` pass, in which the application drives.
  void Drive(Duration span, uint64_t work_a_millisecond = kFastWork) {
    Let(span);
    company_.application_work += work_a_millisecond * static_cast<uint64_t>(span.ns) / 1'000'000;
  }
  // Carries out one step of polling, which takes a microsecond.
  void Poll(bool has_worked, bool is_hogged = false) {
    ASSERT_TRUE(step_.what == Do::kPass || step_.what == Do::kPause);
    Let(Microseconds(1));
    if (step_.what == Do::kPause) step_ = policy_.AfterPause();
    ASSERT_EQ(step_.what, Do::kPass);
    step_ = policy_.AfterPass(now_, has_worked, is_hogged, company_);
  }
  // Polls without work; returns for how long.
  Duration PollUntilSleep() {
    const Time began = now_;
    while (step_.what == Do::kPass || step_.what == Do::kPause) Poll(false);
    return now_ - began;
  }
  void Sleep(Slept how, bool is_woken) {
    ASSERT_EQ(step_.what, Do::kSleep);
    step_ = policy_.AfterSleep(now_, how, is_woken, company_);
  }
  // The application drives until the thread stands by.
  void BeginToStandBy() {
    while (step_.what != Do::kStandBy) {
      if (step_.what == Do::kSleep) Sleep(Slept::kSleep, true);
      Drive(Microseconds(20));
      Poll(false);
    }
  }
  // The application drives for `span`. Returns how often the thread looked; 0 if a look found that
  // the application does not drive.
  int StandBy(Duration span, uint64_t work_a_millisecond = kFastWork) {
    int looks = 0;
    for (const Time end = now_ + span; now_ < end; ++looks) {
      Drive(step_.until - now_, work_a_millisecond);
      step_ = policy_.AfterStandBy(now_, company_);
      if (step_.what != Do::kStandBy) return 0;
    }
    return looks;
  }
  // The application stops. Returns how long the thread takes to find out.
  Duration Stop() {
    const Time stopped = now_;
    while (step_.what == Do::kStandBy) {
      Let(step_.until - now_);
      step_ = policy_.AfterStandBy(now_, company_);
    }
    return now_ - stopped;
  }
  // The application drives on. Returns how long the thread polls before it stands by again.
  Duration Doubt() {
    const Time began = now_;
    BeginToStandBy();
    return now_ - began;
  }

  ProgressPolicy policy_;
  ProgressPolicy::Company company_;
  Time now_ = {1'000'000'000};
  Step step_{};
};

TEST_F(ProgressPolicyTest, ThreadPollsForAMomentBeforeItSleeps) {
  EXPECT_EQ(PollUntilSleep(), drive::kSpin);
  EXPECT_EQ(step_.until, now_ + drive::kLinger) << "it may have worked before";
  Sleep(Slept::kSleep, /*is_woken=*/true);
  Poll(/*has_worked=*/true);
  EXPECT_EQ(PollUntilSleep(), drive::kSpin);
}

TEST_F(ProgressPolicyTest, SleepAfterWorkIsShortAndTheNextOneLong) {
  PollUntilSleep();
  Let(drive::kLinger);
  Sleep(Slept::kSleep, /*is_woken=*/false);
  EXPECT_LE(PollUntilSleep(), Microseconds(1)) << "the time ended the sleep: one look is enough";
  EXPECT_EQ(step_.until, kNever);
  Sleep(Slept::kSleep, /*is_woken=*/true);
  PollUntilSleep();
  EXPECT_EQ(step_.until, now_ + drive::kLinger);
}

TEST_F(ProgressPolicyTest, WorkThatIsFoundAtTheEndOfASleepMakesTheNextOneShort) {
  PollUntilSleep();
  Sleep(Slept::kSleep, /*is_woken=*/false);
  Poll(/*has_worked=*/true);
  PollUntilSleep();
  EXPECT_EQ(step_.until, now_ + drive::kLinger);
}

TEST_F(ProgressPolicyTest, NapsGetLongerUntilThereIsWork) {
  PollUntilSleep();
  for (Duration nap = drive::kShortestNap; nap < drive::kLongestNap; nap = nap * 2) {
    EXPECT_EQ(policy_.NapEnd(now_) - now_, nap);
    Sleep(Slept::kNap, false);
    PollUntilSleep();
  }
  EXPECT_EQ(policy_.NapEnd(now_) - now_, drive::kLongestNap);
  EXPECT_EQ(policy_.NapEnd(now_) - now_, drive::kLongestNap);
  Sleep(Slept::kNap, false);
  Poll(/*has_worked=*/true);
  EXPECT_EQ(policy_.NapEnd(now_) - now_, drive::kShortestNap);
}

TEST_F(ProgressPolicyTest, ThreadSleepsOnAHoggedProcessor) {
  Poll(false, /*is_hogged=*/true);
  EXPECT_EQ(step_.what, Do::kSleep);
}

// It would take the processor from a program that drives.
TEST_F(ProgressPolicyTest, ThreadPollsOnAHoggedProcessorWhileTheApplicationWorks) {
  company_.application_waits = true;
  for (int i = 0; i < 20; ++i) {
    company_.application_work += 1;
    Poll(false, /*is_hogged=*/true);
    EXPECT_EQ(step_.what, Do::kPause);
  }
  Poll(false, /*is_hogged=*/true);
  EXPECT_EQ(step_.what, Do::kSleep);
}

TEST_F(ProgressPolicyTest, ThreadStandsByWhenTheApplicationHasDoneEnough) {
  company_ = {};
  ProgressPolicy policy;
  policy.Begin(now_, company_);
  company_.application_work = drive::kWorkThatDrives - 1;
  EXPECT_EQ(policy.AfterPass(now_, true, false, company_).what, Do::kPass);
  ++company_.application_work;
  company_.application_waits = true;
  EXPECT_EQ(policy.AfterPass(now_, true, false, company_).what, Do::kPass);
  company_.application_waits = false;
  const Step step = policy.AfterPass(now_, true, false, company_);
  EXPECT_EQ(step.what, Do::kStandBy);
  EXPECT_EQ(step.until, now_ + drive::kFirstLook);
}

// Frames that the application takes may have woken the thread: only a sleep that the time ends
// shows that the application did not drive.
TEST_F(ProgressPolicyTest, WorkBeforeAWakeupCountsAndWorkBeforeTheEndOfASleepDoesNot) {
  for (const bool is_woken : {true, false}) {
    ProgressPolicy policy;
    company_ = {};
    policy.Begin(now_, company_);
    company_.application_work = drive::kWorkThatDrives;
    policy.AfterSleep(now_, Slept::kSleep, is_woken, company_);
    const Step step = policy.AfterPass(now_, false, false, company_);
    EXPECT_EQ(step.what == Do::kStandBy, is_woken);
  }
}

TEST_F(ProgressPolicyTest, ApplicationThatDrivesIsLookedAtOnceAMillisecond) {
  BeginToStandBy();
  EXPECT_GT(StandBy(Milliseconds(10)), 10);
  const int looks = StandBy(Milliseconds(1'000));
  EXPECT_GT(looks, 990);
  EXPECT_LE(looks, 1'000);
}

TEST_F(ProgressPolicyTest, ApplicationThatWaitsForEventsIsFoundOutInSomeLooks) {
  BeginToStandBy();
  EXPECT_EQ(StandBy(Milliseconds(1), 40), 8 / 2) << "the first looks want to see any work";
  EXPECT_EQ(StandBy(Milliseconds(5), 700), 0);
  EXPECT_LT(Doubt(), drive::kShortestDoubt) << "it has not stopped";
  EXPECT_GT(StandBy(Milliseconds(5), 800), 0);
}

TEST_F(ProgressPolicyTest, ApplicationThatStopsAtOnceIsFoundOutSoonAndTrustedLessAndLess) {
  Duration doubt = drive::kShortestDoubt;
  BeginToStandBy();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Stop(), drive::kFirstLook) << i;
    const Duration doubted = Doubt();
    EXPECT_GE(doubted, doubt) << i;
    EXPECT_LT(doubted, doubt + Microseconds(100)) << i;
    doubt = std::min(doubt * 2, drive::kLongestDoubt);
  }
}

TEST_F(ProgressPolicyTest, ApplicationThatDroveForLongIsTrustedAgainAtOnce) {
  BeginToStandBy();
  for (int i = 0; i < 5; ++i) {
    Stop();
    Doubt();
  }
  StandBy(drive::kProof);
  EXPECT_LE(Stop(), drive::kLongestLook * 2);
  EXPECT_LT(Doubt(), drive::kShortestDoubt);
  Stop();
  EXPECT_LT(Doubt(), drive::kShortestDoubt + Microseconds(100)) << "what was before is forgotten";
}

// Over a slow port a verb with many frames takes longer than the first looks, and counts when it is
// done; and a busy thread does little work a millisecond.
TEST_F(ProgressPolicyTest, ApplicationInTheEngineDrivesHoweverLittleWorkIsDone) {
  BeginToStandBy();
  company_.is_in_engine = true;
  for (int look = 0; look < 20; ++look) {
    Drive(step_.until - now_, look % 2 == 0 ? 0 : 300);
    step_ = policy_.AfterStandBy(now_, company_);
    EXPECT_EQ(step_.what, Do::kStandBy) << look;
  }
  company_.is_in_engine = false;
  Drive(step_.until - now_, 300);
  EXPECT_EQ(policy_.AfterStandBy(now_, company_).what, Do::kSleep);
}

TEST_F(ProgressPolicyTest, ApplicationWithLittleWorkThatIsInTheEngineOnceDoesNotDrive) {
  BeginToStandBy();
  ASSERT_GT(StandBy(drive::kProof), 0);
  Drive(step_.until - now_, 300);
  company_.is_in_engine = true;
  EXPECT_EQ(policy_.AfterStandBy(now_, company_).what, Do::kSleep);
}

TEST_F(ProgressPolicyTest, LookThatComesEarlySaysNothing) {
  BeginToStandBy();
  const Time until = step_.until;
  Let(Microseconds(5));
  step_ = policy_.AfterStandBy(now_, company_);
  EXPECT_EQ(step_.what, Do::kStandBy);
  EXPECT_EQ(step_.until, until);
}

TEST_F(ProgressPolicyTest, ThreadDoesNotStandByWhileTheApplicationWaits) {
  BeginToStandBy();
  company_.application_waits = true;
  Let(Microseconds(5));
  EXPECT_EQ(policy_.AfterStandBy(now_, company_).what, Do::kSleep);
  company_ = {.application_work = company_.application_work};
  BeginToStandBy();
}

// A driving application may stop while another of its threads waits.
TEST_F(ProgressPolicyTest, ThreadDoesNotStandByWhileAnAnswerIsAwaited) {
  BeginToStandBy();
  company_.awaits_answer = true;
  Let(Microseconds(5));
  const Step step = policy_.AfterStandBy(now_, company_);
  EXPECT_EQ(step.what, Do::kSleep);
  EXPECT_EQ(step.until, now_ + drive::kLinger);
}

}  // namespace
}  // namespace uroce::nic
