#include "dpdk_nic/engine/flush_plan.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;

constexpr Duration kPass{500};

class FlushPlanTest : public testing::Test {
 protected:
  void SetUp() override { plan_.AfterFlush(now_); }

  // A verb that sends one frame, of a program that awaits answers.
  void Send() {
    plan_.CountFrame();
    plan_.AfterVerb(now_, /*awaits_answers=*/true);
  }

  FlushPlan plan_;
  Time now_{1'000'000};
};

TEST_F(FlushPlanTest, NothingIsDueWhereNothingWasSent) {
  plan_.AfterPass(now_, /*of_application=*/true, /*has_received=*/false, /*has_sent=*/false);
  plan_.AfterPass(now_, true, true, false);
  plan_.AfterPass(now_, false, true, false);
  EXPECT_FALSE(plan_.IsDue(now_ + FlushPlan::kLongestForOthers * 10));
}

TEST_F(FlushPlanTest, LoneMessageIsFlushedAtOnce) {
  plan_.AfterVerb(now_, /*awaits_answers=*/false);
  EXPECT_TRUE(plan_.IsDue(now_));
}

TEST_F(FlushPlanTest, MessageWaitsForMoreMessagesSinceTheLastFlush) {
  plan_.AfterVerb(now_ + kPass, /*awaits_answers=*/true);
  EXPECT_FALSE(plan_.IsDue(now_ + Duration{FlushPlan::kLongestForOthers.ns - 1}));
  EXPECT_TRUE(plan_.IsDue(now_ + FlushPlan::kLongestForOthers));
}

TEST_F(FlushPlanTest, PassOfTheHelperHoldsNothingUp) {
  plan_.AfterPass(now_, /*of_application=*/false, /*has_received=*/true, /*has_sent=*/true);
  EXPECT_TRUE(plan_.IsDue(now_));
}

TEST_F(FlushPlanTest, PassThatReceivedNothingFlushesAtOnce) {
  plan_.AfterPass(now_, true, /*has_received=*/false, /*has_sent=*/true);
  EXPECT_TRUE(plan_.IsDue(now_));
}

TEST_F(FlushPlanTest, AnswersWaitForTheReplyThatIsAVerb) {
  plan_.AfterPass(now_, true, true, true);
  EXPECT_FALSE(plan_.IsDue(now_));
  plan_.AfterVerb(now_ + kPass, false);
  EXPECT_TRUE(plan_.IsDue(now_ + kPass));
}

TEST_F(FlushPlanTest, AnswersGoByThePassThatGetsNothing) {
  plan_.AfterPass(now_, true, true, true);
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_TRUE(plan_.IsDue(now_ + kPass));
}

TEST_F(FlushPlanTest, AnswersWaitThroughAPassThatSendsNothing) {
  plan_.AfterPass(now_, true, true, true);
  plan_.AfterPass(now_ + kPass, true, true, false);
  EXPECT_FALSE(plan_.IsDue(now_ + kPass));
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_TRUE(plan_.IsDue(now_ + kPass));
}

TEST_F(FlushPlanTest, AnswersWaitWhileMoreComesButNotForLong) {
  plan_.AfterPass(now_, true, true, true);
  for (Duration waited = kPass; waited < FlushPlan::kLongestForReply; waited = waited + kPass) {
    plan_.AfterPass(now_ + waited, true, true, true);
    EXPECT_FALSE(plan_.IsDue(now_ + waited));
  }
  EXPECT_TRUE(plan_.IsDue(now_ + FlushPlan::kLongestForReply));
}

TEST_F(FlushPlanTest, OnceFlushedThePassThatGetsNothingHasNothingToSend) {
  plan_.AfterPass(now_, true, true, true);
  plan_.AfterFlush(now_);
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_FALSE(plan_.IsDue(now_ + kPass));
}

// A program may poll for completions between any two requests.
TEST_F(FlushPlanTest, RequestsWaitThroughAPassThatGetsNothing) {
  for (int i = 0; i < 3; ++i) {
    Send();
    plan_.AfterPass(now_ + kPass, true, false, false);
    EXPECT_FALSE(plan_.IsDue(now_ + kPass));
  }
}

TEST_F(FlushPlanTest, RequestsGoByTheSecondPassInARowThatGetsNothing) {
  Send();
  plan_.AfterPass(now_ + kPass, true, false, false);
  plan_.AfterPass(now_ + kPass, true, /*has_received=*/true, false);
  plan_.AfterPass(now_ + kPass, true, false, false);
  plan_.AfterPass(now_ + kPass, /*of_application=*/false, false, false);
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_FALSE(plan_.IsDue(now_ + kPass));
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_TRUE(plan_.IsDue(now_ + kPass));
  plan_.AfterFlush(now_ + kPass);
  plan_.AfterPass(now_ + kPass, true, false, false);
  EXPECT_FALSE(plan_.IsDue(now_ + kPass)) << "nothing is left";
}

TEST_F(FlushPlanTest, RequestsDoNotWaitForMoreThanOneCallTakes) {
  for (const char* const when : {"first", "after a flush"}) {
    for (uint32_t i = 1; i < FlushPlan::kMostForOthers; ++i) Send();
    EXPECT_FALSE(plan_.IsDue(now_)) << when;
    Send();
    EXPECT_TRUE(plan_.IsDue(now_)) << when;
    plan_.AfterFlush(now_);
  }
}

}  // namespace
}  // namespace uroce::nic
