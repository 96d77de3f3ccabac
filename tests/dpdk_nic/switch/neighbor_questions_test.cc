#include "dpdk_nic/switch/neighbor_questions.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/dpdk_nic/switch/fake_wire.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::kNever;
using transport::Milliseconds;
using transport::Time;

class NeighborQuestionsTest : public testing::Test {
 protected:
  // Runs at every deadline up to `until`.
  std::vector<control::Neighbor> RunUntil(Time until) {
    std::vector<control::Neighbor> answers;
    while (questions_.NextDeadline() <= until) {
      now_ = questions_.NextDeadline();
      questions_.Run(now_, link_layer_, [&](const auto& answer) { answers.push_back(answer); });
    }
    now_ = until;
    return answers;
  }
  std::vector<control::Neighbor> RunFor(transport::Duration time) { return RunUntil(now_ + time); }
  // The one answer that comes in this time, to the last open question.
  control::Neighbor OnlyAnswer(transport::Duration time) {
    const auto answers = RunFor(time);
    EXPECT_EQ(answers.size(), 1u);
    EXPECT_EQ(questions_.NextDeadline(), kNever);
    return answers.empty() ? control::Neighbor{} : answers[0];
  }

  const std::shared_ptr<FakeNeighborhood> neighborhood_ = std::make_shared<FakeNeighborhood>();
  FakeLinkLayer link_layer_{neighborhood_};
  NeighborQuestions questions_;
  Time now_{1'000'000'000};
};

TEST_F(NeighborQuestionsTest, WithoutAQuestionNothingIsDue) {
  EXPECT_EQ(questions_.NextDeadline(), kNever);
}

TEST_F(NeighborQuestionsTest, KnownNeighborIsAnsweredAtOnce) {
  neighborhood_->known = {{kFarIpv4, kFarMac}};
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  const control::Neighbor answer = OnlyAnswer({});
  EXPECT_EQ(answer.gid, kFarIpv4);
  EXPECT_EQ(answer.mac, kFarMac);
  EXPECT_EQ(answer.is_known, 1);
}

TEST_F(NeighborQuestionsTest, QuestionIsAnsweredOnceTheNeighborIsKnown) {
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  EXPECT_TRUE(RunFor(Milliseconds(1'000)).empty());
  EXPECT_GT(neighborhood_->asked, 1);
  neighborhood_->known = {{kFarIpv4, kFarMac}};
  EXPECT_EQ(RunFor(NeighborQuestions::kAskInterval).size(), 1u);
}

TEST_F(NeighborQuestionsTest, UnansweredQuestionTimesOut) {
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  EXPECT_TRUE(RunFor(NeighborQuestions::kTimeout - Milliseconds(1)).empty());
  const control::Neighbor answer = OnlyAnswer(Milliseconds(1));
  EXPECT_EQ(answer.gid, kFarIpv4);
  EXPECT_EQ(answer.is_known, 0);
}

TEST_F(NeighborQuestionsTest, AskingTwiceIsOneQuestionWithTheTimeoutOfTheFirst) {
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  EXPECT_TRUE(RunFor(Milliseconds(2'000)).empty());
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  EXPECT_EQ(RunFor(Milliseconds(1'000)).size(), 1u);
}

TEST_F(NeighborQuestionsTest, RemovedQuestionIsNotAnswered) {
  ASSERT_TRUE(questions_.Add(now_, kFarIpv4));
  ASSERT_TRUE(questions_.Add(now_, kFarIpv6));
  questions_.Remove(kFarIpv4);
  questions_.Remove(kFarIpv4);
  const auto answers = RunFor(NeighborQuestions::kTimeout);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].gid, kFarIpv6);
}

TEST_F(NeighborQuestionsTest, QuestionsAreLimited) {
  const auto host = [](size_t i) {
    return Gid::FromIpv4({10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)});
  };
  for (size_t i = 0; i < NeighborQuestions::kMaxQuestions; ++i) {
    ASSERT_TRUE(questions_.Add(now_, host(i)));
  }
  EXPECT_FALSE(questions_.Add(now_, kFarIpv4));
  EXPECT_TRUE(questions_.Add(now_, host(0)));  // asked already
  EXPECT_EQ(RunFor(NeighborQuestions::kTimeout).size(), NeighborQuestions::kMaxQuestions);
  EXPECT_TRUE(questions_.Add(now_, kFarIpv4));
}

}  // namespace
}  // namespace uroce::nic
