#include "dpdk_nic/engine/drive_policy/poll_policy.h"

#include <gtest/gtest.h>

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;
using Pause = PollPolicy::Pause;

class PollPolicyTest : public testing::Test {
 protected:
  Pause Fail() { return policy_.PollFailed(/*has_one_processor=*/false); }
  uint32_t PollsUntilYield() {
    uint32_t polls = 1;
    while (Fail() == Pause::kNone) ++polls;
    return polls;
  }
  Pause Yield(Duration away) {
    const Time before = now_;
    now_ = now_ + away;
    return policy_.Yielded(before, now_);
  }
  // Yields to a thread that shares the processor, until the policy tries to leave it.
  Duration StaysFor() {
    const Time began = now_;
    while (Yield(drive::kOtherThreadRan) != Pause::kMoment) {
    }
    return now_ - began;
  }

  PollPolicy policy_;
  Time now_{1'000'000'000};
};

TEST_F(PollPolicyTest, SpinsFirstAndThenYieldsAfterEveryPoll) {
  EXPECT_EQ(PollsUntilYield(), drive::kPollsBeforeYield);
  EXPECT_EQ(PollsUntilYield(), 1u);
  policy_.PollWorked();
  EXPECT_EQ(PollsUntilYield(), drive::kPollsBeforeYield);
}

TEST_F(PollPolicyTest, YieldsAtOnceOnAMachineOfOneProcessor) {
  EXPECT_EQ(policy_.PollFailed(/*has_one_processor=*/true), Pause::kYield);
}

TEST_F(PollPolicyTest, YieldsAfterTheFirstPollOnASharedProcessor) {
  Yield(drive::kOtherThreadRan);
  policy_.PollWorked();
  EXPECT_EQ(PollsUntilYield(), 1u);
  Yield(Duration{300});
  policy_.PollWorked();
  EXPECT_EQ(PollsUntilYield(), drive::kPollsBeforeYield) << "no other thread wants it";
}

TEST_F(PollPolicyTest, StepsAsideOnASharedProcessorAndLessAndLessOften) {
  EXPECT_EQ(StaysFor(), drive::kOtherThreadRan * drive::kSharedYieldsBeforeStep);
  for (Duration stay = drive::kShortestStay; stay < drive::kLongestStay; stay = stay * 2) {
    EXPECT_GE(StaysFor(), stay);
  }
  EXPECT_GE(StaysFor(), drive::kLongestStay);
  const Duration last = StaysFor();
  EXPECT_GE(last, drive::kLongestStay);
  EXPECT_LT(last, drive::kLongestStay + transport::Milliseconds(1));
}

TEST_F(PollPolicyTest, StepsAsideAtOnceWhenTheLastTimeIsLongAgo) {
  StaysFor();
  StaysFor();
  now_ = now_ + drive::kLongestStay * 3;
  EXPECT_EQ(StaysFor(), drive::kOtherThreadRan * drive::kSharedYieldsBeforeStep);
  const Duration next = StaysFor();
  EXPECT_LT(next, drive::kShortestStay + transport::Milliseconds(1)) << "begins anew";
}

TEST_F(PollPolicyTest, ProcessorIsHoggedForAWhileAfterALongYield) {
  Yield(Duration{drive::kHogRan.ns - 1});
  EXPECT_FALSE(policy_.IsHogged(now_));
  for (Duration hogged = drive::kShortestHogged; hogged <= drive::kLongestHogged;
       hogged = hogged * 2) {
    Yield(drive::kHogRan);
    EXPECT_TRUE(policy_.IsHogged(now_ + Duration{hogged.ns - 1}));
    EXPECT_FALSE(policy_.IsHogged(now_ + hogged));
    now_ = now_ + hogged;
  }
}

TEST_F(PollPolicyTest, ThreadThatIsRefusedForLongNaps) {
  uint32_t naps = 0;
  for (uint32_t i = 0; i < drive::kRefusalsBeforeNap * 2; ++i) {
    naps += policy_.PollRefused(false) == Pause::kNap ? 1 : 0;
  }
  EXPECT_EQ(naps, 2u);
}

TEST_F(PollPolicyTest, RefusalsCountInARowOnly) {
  for (uint32_t i = 0; i < drive::kRefusalsBeforeNap * 2; ++i) {
    if (i % 1'000 == 0) policy_.PollWorked();
    if (i % 1'500 == 0) Fail();
    EXPECT_NE(policy_.PollRefused(false), Pause::kNap);
  }
}

}  // namespace
}  // namespace uroce::nic
