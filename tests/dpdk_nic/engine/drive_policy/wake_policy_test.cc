#include "dpdk_nic/engine/drive_policy/wake_policy.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::kNever;
using transport::Time;

constexpr WakePolicy::Left kNothing{
    .has_frames = false, .next_deadline = kNever, .is_event_awaited = false, .is_watched = false};
constexpr Time kUntil{1'000};

WakePolicy::Left WithFrames() {
  WakePolicy::Left left = kNothing;
  left.has_frames = true;
  return left;
}

WakePolicy::Left WithDeadline(Time deadline) {
  WakePolicy::Left left = kNothing;
  left.next_deadline = deadline;
  return left;
}

TEST(WakePolicyTest, ThreadThatDoesNotSleepIsNotWoken) {
  WakePolicy policy;
  EXPECT_FALSE(policy.Wakes(WithFrames()));
  EXPECT_FALSE(policy.is_asleep());
}

TEST(WakePolicyTest, SleepingThreadIsWokenForFramesOnce) {
  WakePolicy policy;
  policy.SleepBegins(kUntil);
  EXPECT_FALSE(policy.Wakes(kNothing));
  EXPECT_TRUE(policy.Wakes(WithFrames()));
  EXPECT_FALSE(policy.Wakes(WithFrames())) << "it is on its way";
}

TEST(WakePolicyTest, SleepingThreadIsWokenForAnEarlierDeadlineOnly) {
  WakePolicy policy;
  policy.SleepBegins(kUntil);
  EXPECT_FALSE(policy.Wakes(WithDeadline(kUntil)));
  EXPECT_TRUE(policy.Wakes(WithDeadline(Time{999})));
}

TEST(WakePolicyTest, ThreadThatWokeUpIsNotWoken) {
  WakePolicy policy;
  policy.SleepBegins(kUntil);
  policy.SleepEnds();
  EXPECT_FALSE(policy.Wakes(WithFrames()));
}

TEST(WakePolicyTest, ThreadThatStandsByIsWokenWhenTheApplicationBeginsToWait) {
  WakePolicy policy;
  WakePolicy::Left left = kNothing;
  left.is_event_awaited = left.is_watched = true;
  EXPECT_TRUE(policy.Wakes(left));
  EXPECT_TRUE(policy.application_waits());
  EXPECT_FALSE(policy.Wakes(left));
  left.is_event_awaited = false;
  EXPECT_FALSE(policy.Wakes(left));
  EXPECT_FALSE(policy.application_waits());
}

TEST(WakePolicyTest, ThreadThatPollsSeesByItselfThatTheApplicationWaits) {
  WakePolicy policy;
  WakePolicy::Left left = kNothing;
  left.is_event_awaited = true;
  EXPECT_FALSE(policy.Wakes(left));
  EXPECT_TRUE(policy.application_waits());
}

}  // namespace
}  // namespace uroce::nic
