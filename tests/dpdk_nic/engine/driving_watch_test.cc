#include "dpdk_nic/engine/driving_watch.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Microseconds;
using transport::Milliseconds;
using transport::Time;

// An application thread, and a helper thread that looks at it whenever the watch wants a look.
class DrivingWatchTest : public testing::Test {
 protected:
  // Lets `span` pass, in which the application thread drives.
  void Drive(Duration span, uint64_t work_a_millisecond = 10'000) {
    now_ = now_ + span;
    work_ += work_a_millisecond * static_cast<uint64_t>(span.ns) / 1'000'000;
  }
  void Begin() { watch_.Begin(now_, work_); }
  // The application thread drives for `span`. Returns how often the helper looked; 0 if a look
  // found that the thread does not drive.
  int TrustFor(Duration span, uint64_t work_a_millisecond = 10'000) {
    int looks = 0;
    for (const Time end = now_ + span; now_ < end; ++looks) {
      Drive(watch_.next_look() - now_, work_a_millisecond);
      if (!watch_.Look(now_, work_, false)) return 0;
    }
    return looks;
  }
  // The application thread stops driving. Returns how long the helper takes to find out.
  Duration Stop() {
    const Time stopped = now_;
    do {
      Drive(watch_.next_look() - now_, 0);
    } while (watch_.Look(now_, work_, false));
    return now_ - stopped;
  }
  // How long the helper goes on polling before it may trust the thread again.
  Duration Doubt() {
    const Time began = now_;
    while (!watch_.MayBegin(now_)) now_ = now_ + Microseconds(10);
    return now_ - began;
  }

  DrivingWatch watch_;
  Time now_ = {1'000'000'000};
  uint64_t work_ = 77;
};

TEST_F(DrivingWatchTest, ThreadThatDrivesIsLookedAtOnceAMillisecond) {
  Begin();
  EXPECT_GT(TrustFor(Milliseconds(10)), 10);
  const int looks = TrustFor(Milliseconds(1'000));
  EXPECT_GT(looks, 990);
  EXPECT_LE(looks, 1'000);
}

TEST_F(DrivingWatchTest, ThreadThatWaitsForEventsIsFoundOutInSomeLooks) {
  Begin();
  EXPECT_EQ(TrustFor(Milliseconds(1), 40), 8 / 2) << "the first looks want to see any work";
  EXPECT_EQ(TrustFor(Milliseconds(5), 700), 0);
  EXPECT_EQ(Doubt(), Duration{0}) << "it has not stopped";
  Begin();
  EXPECT_GT(TrustFor(Milliseconds(5), 800), 0);
}

TEST_F(DrivingWatchTest, ThreadThatStopsAtOnceIsFoundOutSoonAndTrustedLessAndLess) {
  Duration expected = DrivingWatch::kShortestDoubt;
  for (int i = 0; i < 10; ++i) {
    Begin();
    EXPECT_EQ(Stop(), DrivingWatch::kFirstTick) << i;
    EXPECT_EQ(Doubt(), expected) << i;
    expected = std::min(expected * 2, DrivingWatch::kLongestDoubt);
  }
}

// Expect: less than 20 ms of ten seconds lost.
TEST_F(DrivingWatchTest, ProgramThatSpinsOnMemoryBetweenPollsLosesLittle) {
  const Time end = now_ + Milliseconds(10'000);
  Duration lost;
  while (now_ < end) {
    Begin();
    lost = lost + Stop();
    Doubt();
  }
  EXPECT_LT(lost, Milliseconds(20));
}

TEST_F(DrivingWatchTest, ThreadThatDroveForLongIsTrustedAgainAtOnce) {
  for (int i = 0; i < 5; ++i) {
    Begin();
    Stop();
    Doubt();
  }
  Begin();
  TrustFor(DrivingWatch::kProof);
  EXPECT_LE(Stop(), DrivingWatch::kLongestTick * 2);
  EXPECT_EQ(Doubt(), Duration{0});
  Begin();
  Stop();
  EXPECT_EQ(Doubt(), DrivingWatch::kShortestDoubt) << "what was before is forgotten";
}

// Over a slow port a verb with many frames takes longer than the first ticks, and counts when it is
// done; and a busy thread does little work a millisecond.
TEST_F(DrivingWatchTest, ThreadInTheEngineDrivesHoweverLittleWorkIsDone) {
  Begin();
  for (int look = 0; look < 20; ++look) {
    Drive(watch_.next_look() - now_, look % 2 == 0 ? 0 : 300);
    EXPECT_TRUE(watch_.Look(now_, work_, true)) << look;
  }
  Drive(watch_.next_look() - now_, 300);
  EXPECT_FALSE(watch_.Look(now_, work_, false));
}

TEST_F(DrivingWatchTest, ThreadWithLittleWorkThatIsInTheEngineOnceDoesNotDrive) {
  Begin();
  ASSERT_GT(TrustFor(DrivingWatch::kProof), 0);
  Drive(watch_.next_look() - now_, 300);
  EXPECT_FALSE(watch_.Look(now_, work_, true));
}

TEST_F(DrivingWatchTest, LookThatComesEarlySaysNothing) {
  Begin();
  Drive(Microseconds(5), 0);
  EXPECT_TRUE(watch_.Look(now_, work_, false));
  EXPECT_EQ(watch_.next_look() - now_, DrivingWatch::kFirstTick - Microseconds(5));
}

}  // namespace
}  // namespace uroce::nic
