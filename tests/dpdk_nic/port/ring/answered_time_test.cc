#include "dpdk_nic/port/ring/answered_time.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::Time;

constexpr Time At(int64_t ns) { return {ns}; }

TEST(AnsweredTimeTest, AllAnsweredCoversWhatWasSentBefore) {
  AnsweredTime answered;
  answered.Update(At(100), 3, 3);
  EXPECT_TRUE(answered.Covers(At(99)));
  EXPECT_FALSE(answered.Covers(At(100))) << "may be sent after the question";
}

TEST(AnsweredTimeTest, UnansweredFrameIsNotCoveredUntilItIsAnswered) {
  AnsweredTime answered;
  answered.Update(At(100), 3, 2);
  answered.Update(At(200), 3, 2);
  EXPECT_FALSE(answered.Covers(At(50)));
  answered.Update(At(300), 3, 3);
  EXPECT_TRUE(answered.Covers(At(299)));
}

// The ring is never empty, as other queue pairs use it, too.
TEST(AnsweredTimeTest, AnswerToAnEarlierQuestionCoversTheTimeBeforeIt) {
  AnsweredTime answered;
  answered.Update(At(100), 10, 5);
  answered.Update(At(200), 20, 9);
  EXPECT_FALSE(answered.Covers(At(50)));
  answered.Update(At(300), 30, 10);  // what was sent before 100
  EXPECT_TRUE(answered.Covers(At(99)));
  EXPECT_FALSE(answered.Covers(At(100)));
  answered.Update(At(400), 40, 29);
  EXPECT_FALSE(answered.Covers(At(100))) << "30 were sent before 300";
  answered.Update(At(500), 50, 30);
  EXPECT_TRUE(answered.Covers(At(299)));
}

TEST(AnsweredTimeTest, NewRingCoversTheTimeBeforeTheOldOneWasLost) {
  AnsweredTime answered{At(100)};
  answered.Update(At(200), 4, 0);
  EXPECT_TRUE(answered.Covers(At(99)));
  EXPECT_FALSE(answered.Covers(At(100)));
  EXPECT_EQ(answered.until(), At(100));
}

}  // namespace
}  // namespace uroce::nic
