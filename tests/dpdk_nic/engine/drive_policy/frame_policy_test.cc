#include "dpdk_nic/engine/drive_policy/frame_policy.h"

#include <gtest/gtest.h>

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Microseconds;
using transport::Time;
using Flush = FramePolicy::Flush;

constexpr Duration kPass{500};

class FlushTest : public testing::Test {
 protected:
  // The first flush makes the others count from here.
  void SetUp() override { EXPECT_EQ(Verb(now_, /*awaits_answers=*/false), Flush::kNow); }

  // A verb that sends one frame at once.
  Flush Verb(Time now, bool awaits_answers) {
    policy_.SentAtOnce(now, awaits_answers);
    policy_.FrameGiven();
    return policy_.AfterVerb(now, 1, is_watched_);
  }
  Flush Pass(Time now, bool has_received, bool has_sent) {
    return PassOf(Driver::kApplication, now, has_received, has_sent);
  }
  Flush PassOf(Driver driver, Time now, bool has_received, bool has_sent) {
    if (has_sent) policy_.FrameGiven();
    return policy_.AfterPass(now, driver, has_received, has_sent, is_watched_);
  }

  FramePolicy policy_;
  Time now_{1'000'000};
  bool is_watched_ = true;
};

TEST_F(FlushTest, EngineThatSentNothingFlushesNothing) {
  const Time later = now_ + drive::kLongestForOthers * 10;
  EXPECT_EQ(Pass(later, /*has_received=*/false, /*has_sent=*/false), Flush::kSoon);
  EXPECT_EQ(Pass(later, true, false), Flush::kSoon);
  EXPECT_EQ(PassOf(Driver::kProgressThread, later, true, false), Flush::kSoon);
}

TEST_F(FlushTest, LoneMessageIsFlushedAtOnce) {
  EXPECT_EQ(Verb(now_, /*awaits_answers=*/false), Flush::kNow);
}

TEST_F(FlushTest, MessageWaitsForMoreMessagesSinceTheLastFlush) {
  EXPECT_EQ(Verb(now_ + kPass, /*awaits_answers=*/true), Flush::kSoon);
  EXPECT_EQ(Verb(now_ + Duration{drive::kLongestForOthers.ns - 1}, true), Flush::kSoon);
  EXPECT_EQ(Verb(now_ + drive::kLongestForOthers, true), Flush::kNow);
}

TEST_F(FlushTest, MessageOfAnApplicationThatIsNotWatchedIsFlushedAtOnce) {
  is_watched_ = false;
  EXPECT_EQ(Verb(now_ + kPass, /*awaits_answers=*/true), Flush::kNow);
  EXPECT_EQ(Pass(now_ + kPass, true, true), Flush::kNow);
}

TEST_F(FlushTest, FrameThatFollowsOthersInAVerbDoesNotHurryThem) {
  policy_.SentAtOnce(now_ + kPass, /*awaits_answers=*/true);
  policy_.SentAtOnce(now_ + kPass, /*awaits_answers=*/false);
  EXPECT_EQ(policy_.AfterVerb(now_ + kPass, 2, is_watched_), Flush::kSoon);
  EXPECT_TRUE(policy_.is_first_of_verb());
}

TEST_F(FlushTest, PassOfTheProgressThreadHoldsNothingUp) {
  EXPECT_EQ(PassOf(Driver::kProgressThread, now_, /*has_received=*/true, /*has_sent=*/true),
            Flush::kNow);
}

TEST_F(FlushTest, PassThatReceivedNothingFlushesAtOnce) {
  EXPECT_EQ(Pass(now_, /*has_received=*/false, /*has_sent=*/true), Flush::kNow);
}

TEST_F(FlushTest, AnswersWaitForTheReplyThatIsAVerb) {
  EXPECT_EQ(Pass(now_, true, true), Flush::kSoon);
  EXPECT_EQ(Verb(now_ + kPass, false), Flush::kNow);
}

TEST_F(FlushTest, AnswersGoByThePassThatReceivesNothing) {
  EXPECT_EQ(Pass(now_, true, true), Flush::kSoon);
  EXPECT_EQ(Pass(now_ + kPass, false, false), Flush::kNow);
}

TEST_F(FlushTest, AnswersWaitThroughAPassThatSendsNothing) {
  Pass(now_, true, true);
  EXPECT_EQ(Pass(now_ + kPass, true, false), Flush::kSoon);
  EXPECT_EQ(Pass(now_ + kPass, false, false), Flush::kNow);
}

TEST_F(FlushTest, AnswersWaitWhileMoreComesButNotForLong) {
  Pass(now_, true, true);
  for (Duration waited = kPass; waited < drive::kLongestForReply; waited = waited + kPass) {
    EXPECT_EQ(Pass(now_ + waited, true, true), Flush::kSoon);
  }
  EXPECT_EQ(Pass(now_ + drive::kLongestForReply, true, true), Flush::kNow);
}

TEST_F(FlushTest, EmptyPassAfterAFlushFlushesNothing) {
  Pass(now_, true, true);
  EXPECT_EQ(Verb(now_, false), Flush::kNow);
  EXPECT_EQ(Pass(now_ + kPass, false, false), Flush::kSoon);
}

// A program may poll for completions between any two requests.
TEST_F(FlushTest, RequestsWaitThroughOneEmptyPass) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Verb(now_ + kPass, true), Flush::kSoon);
    EXPECT_EQ(Pass(now_ + kPass, false, false), Flush::kSoon);
  }
}

TEST_F(FlushTest, RequestsGoByTheSecondEmptyPassInARow) {
  const Time now = now_ + kPass;
  Verb(now, true);
  Pass(now, false, false);
  Pass(now, /*has_received=*/true, false);
  Pass(now, false, false);
  PassOf(Driver::kProgressThread, now, false, false);
  EXPECT_EQ(Pass(now, false, false), Flush::kSoon);
  EXPECT_EQ(Pass(now, false, false), Flush::kNow);
  EXPECT_EQ(Pass(now, false, false), Flush::kSoon) << "nothing is left";
}

TEST_F(FlushTest, RequestsDoNotWaitForMoreThanOneCallTakes) {
  for (const char* const when : {"first", "after a flush"}) {
    for (uint32_t i = 1; i < drive::kMostUnflushed; ++i) {
      EXPECT_EQ(Verb(now_, true), Flush::kSoon) << when;
    }
    EXPECT_EQ(Verb(now_, true), Flush::kNow) << when;
  }
}

TEST(PassInVerbTest, VerbMakesAPassWhenManyFramesWereSentSinceSomeWereReceived) {
  FramePolicy policy;
  policy.AfterVerb(Time{1}, drive::kMostUnread - 1, true);
  EXPECT_FALSE(policy.IsPassDue());
  policy.AfterVerb(Time{1}, 1, true);
  EXPECT_TRUE(policy.IsPassDue());
  policy.ReceiveBegins();
  EXPECT_FALSE(policy.IsPassDue());
}

TEST(PassInVerbTest, VerbsThatFindThePortFullMakeAPassSometime) {
  FramePolicy policy;
  for (uint32_t i = 0; i < drive::kMostUnread; ++i) {
    EXPECT_FALSE(policy.IsPassDue()) << i;
    EXPECT_EQ(policy.AfterVerb(Time{1}, 0, false), Flush::kNothing);
  }
  EXPECT_TRUE(policy.IsPassDue());
}

class HoldTest : public testing::Test {
 protected:
  bool Holds(Time now, int received) {
    return policy_.HoldsAnswers(now, Driver::kProgressThread, received);
  }

  static constexpr Duration kMoment{100};
  static constexpr Time kStart{1'000'000};
  FramePolicy policy_;
};

TEST_F(HoldTest, LoneFrameIsAnsweredAtOnce) {
  for (Time now = kStart; now < kStart + Microseconds(10); now = now + drive::kCloseTogether) {
    EXPECT_FALSE(Holds(now, 1));
  }
}

TEST_F(HoldTest, FirstFramesOfAnEngineAreAnsweredAtOnce) { EXPECT_FALSE(Holds(Time{0}, 1)); }

TEST_F(HoldTest, FramesCloseTogetherAreAnsweredTogether) {
  EXPECT_FALSE(Holds(kStart, 1));
  const Time second = kStart + kMoment;
  for (Time now = second; now < second + drive::kLongestHold; now = now + kMoment) {
    EXPECT_TRUE(Holds(now, 1));
  }
  EXPECT_FALSE(Holds(second + drive::kLongestHold, 1));
  // Later answers wait again, counted from then on.
  const Time next = second + drive::kLongestHold + kMoment;
  EXPECT_TRUE(Holds(next, 1));
  EXPECT_TRUE(Holds(next + kMoment * 3, 1));
  EXPECT_FALSE(Holds(next + drive::kLongestHold, 1));
}

TEST_F(HoldTest, LastFramesAreAnsweredThoughNoneFollow) {
  Holds(kStart, 1);
  EXPECT_TRUE(Holds(kStart + kMoment, 1));
  EXPECT_TRUE(Holds(kStart + kMoment * 2, 0));
  EXPECT_FALSE(Holds(kStart + kMoment + drive::kLongestHold, 0));
  EXPECT_FALSE(Holds(kStart + kMoment * 2 + drive::kLongestHold, 0));
}

TEST_F(HoldTest, PassThatReceivedNothingHoldsNothing) {
  EXPECT_FALSE(Holds(kStart, 0));
  EXPECT_FALSE(Holds(kStart + kMoment, 0));
  EXPECT_FALSE(Holds(kStart + kMoment * 2, 1));
}

// It may never make another pass.
TEST_F(HoldTest, ApplicationHoldsNothing) {
  policy_.HoldsAnswers(kStart, Driver::kApplication, 1);
  EXPECT_FALSE(policy_.HoldsAnswers(kStart + kMoment, Driver::kApplication, 1));
}

}  // namespace
}  // namespace uroce::nic
