#include "dpdk_nic/engine/answer_hold.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Microseconds;
using transport::Time;

constexpr Duration kMoment{100};
constexpr Time kStart{1'000'000};

TEST(AnswerHoldTest, LoneFrameIsAnsweredAtOnce) {
  AnswerHold hold;
  for (Time now = kStart; now < kStart + Microseconds(10); now = now + AnswerHold::kCloseTogether) {
    EXPECT_FALSE(hold.Holds(now, 1));
  }
}

TEST(AnswerHoldTest, FirstFramesOfAnEngineAreAnsweredAtOnce) {
  AnswerHold hold;
  EXPECT_FALSE(hold.Holds(Time{0}, 1));
}

TEST(AnswerHoldTest, FramesCloseTogetherAreAnsweredTogether) {
  AnswerHold hold;
  EXPECT_FALSE(hold.Holds(kStart, 1));
  const Time second = kStart + kMoment;
  for (Time now = second; now < second + AnswerHold::kLongest; now = now + kMoment) {
    EXPECT_TRUE(hold.Holds(now, 1));
  }
  EXPECT_FALSE(hold.Holds(second + AnswerHold::kLongest, 1));
  // Later answers wait again, counted from then on.
  const Time next = second + AnswerHold::kLongest + kMoment;
  EXPECT_TRUE(hold.Holds(next, 1));
  EXPECT_TRUE(hold.Holds(next + kMoment * 3, 1));
  EXPECT_FALSE(hold.Holds(next + AnswerHold::kLongest, 1));
}

TEST(AnswerHoldTest, LastFramesAreAnsweredThoughNoneFollow) {
  AnswerHold hold;
  hold.Holds(kStart, 1);
  EXPECT_TRUE(hold.Holds(kStart + kMoment, 1));
  EXPECT_TRUE(hold.Holds(kStart + kMoment * 2, 0));
  EXPECT_FALSE(hold.Holds(kStart + kMoment + AnswerHold::kLongest, 0));
  EXPECT_FALSE(hold.Holds(kStart + kMoment * 2 + AnswerHold::kLongest, 0));
}

TEST(AnswerHoldTest, NothingReceivedIsNothingToWaitFor) {
  AnswerHold hold;
  EXPECT_FALSE(hold.Holds(kStart, 0));
  EXPECT_FALSE(hold.Holds(kStart + kMoment, 0));
  EXPECT_FALSE(hold.Holds(kStart + kMoment * 2, 1));
}

}  // namespace
}  // namespace uroce::nic
