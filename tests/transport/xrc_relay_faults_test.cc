// XRC domains of several processes: processes that end, stand still or do wrong, and links that
// lose frames.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/transport/xrc_relay_fixture.h"
#include "transport/qp/relayed_requests.h"

namespace uroce::transport {
namespace {

TEST_F(XrcRelayTest, ProcessThatDoesNotShareTheDomainRefuses) {
  third_.endpoint.xrc_executors().Unshare(kKey);
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_TRUE(third_.Received().empty());
}

TEST_F(XrcRelayTest, DeathOfTheQueuesProcessEndsTheMessageInExecution) {
  Send(third_.srqn(), Pattern(10), 1);
  // The target has the message, the process of its queue has not.
  Move(first_, owner_);
  Move(owner_, third_);
  EndProcess(third_);
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRemoteOperationError);
  EXPECT_EQ(target_->state(), QpState::kError);
}

TEST_F(XrcRelayTest, QueueOfADeadProcessIsUnknown) {
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  ExpectSuccess(1);
  EndProcess(third_);
  Send(third_.srqn(), Pattern(10), 2);
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
}

TEST_F(XrcRelayTest, ExecutorEndsWithItsTarget) {
  const size_t before = QueuePairsOf(third_);
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  ExpectSuccess(1);
  EXPECT_EQ(QueuePairsOf(third_), before + 1);
  owner_.endpoint.DestroyQueuePair(target_);
  Exchange();
  EXPECT_EQ(QueuePairsOf(third_), before);
}

TEST_F(XrcRelayTest, ExecutorEndsWithItsTargetsProcess) {
  const size_t before = QueuePairsOf(third_);
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  ExpectSuccess(1);
  EndProcess(owner_);
  EXPECT_EQ(QueuePairsOf(third_), before);
}

TEST_F(XrcRelayTest, TargetThatIsConnectedAnewBeginsAnew) {
  for (uint64_t i = 0; i < 3; ++i) {
    third_.PostReceive(i);
    Send(third_.srqn(), Pattern(10), i);
    ExpectSuccess(1);
    QpAttributes reset;
    ASSERT_EQ(target_->Modify(reset, QpAttributeMask::kState), Status::kOk);
    ASSERT_EQ(initiator_->Modify(reset, QpAttributeMask::kState), Status::kOk);
    BringUp(*initiator_, target_->qpn(), 7);
    BringUp(*target_, initiator_->qpn(), 7);
  }
  EXPECT_EQ(third_.Received().size(), 3u);
}

// The link to the process of the queue: a process that stands still answers nothing.
struct Progress : PeerProgress {
  bool HasAnswered(Route, Time, Time) override { return has_answered; }
  bool has_answered = false;
};

class SilentExecutorTest : public XrcRelayTest {
 protected:
  SilentExecutorTest() : XrcRelayTest(&progress_) {}
  // The process of the queue reads nothing for so long; returns the completions meanwhile.
  std::vector<Completion> BeSilent(int tenths) {
    Move(first_, owner_);
    for (int i = 0; i < tenths; ++i) {
      Discard(owner_, third_);
      now_ = now_ + Milliseconds(100);
      owner_.endpoint.OnDeadline(now_);
      Move(owner_, first_);
    }
    return first_.Poll();
  }
  void Discard(Process& from, Process& to) {
    while (from.endpoint.PollTransmit(now_, RouteToBlock(to.number), frame_) != 0) {
    }
  }

  Progress progress_;
};

TEST_F(SilentExecutorTest, ProcessThatStandsStillIsWaitedFor) {
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  EXPECT_TRUE(BeSilent(10 * RelayedRequests::kMostSilences).empty());
  EXPECT_TRUE(owner_.endpoint.OwesReply(RouteToBlock(first_.number))) << "the peer waits, too";
  progress_.has_answered = true;
  now_ = now_ + Milliseconds(100);
  owner_.endpoint.OnDeadline(now_);
  ExpectSuccess(1);
  EXPECT_FALSE(owner_.endpoint.OwesReply(RouteToBlock(first_.number)));
}

TEST_F(SilentExecutorTest, ProcessThatReadsAndDoesNotAnswerIsGivenUp) {
  progress_.has_answered = true;
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  EXPECT_TRUE(BeSilent(RelayedRequests::kMostSilences).empty());
  const auto completions = BeSilent(1);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRemoteOperationError);
}

// A process without the key gets few queue pairs, and one with the key is served all the same.
TEST_F(XrcRelayTest, StrangersAreFew) {
  const size_t before = QueuePairsOf(third_);
  for (uint32_t i = 0; i < 2 * XrcExecutors::kMaxStrangersOfProcess; ++i) {
    Begin({.key = {{9}}, .target = {4 * kMaxQps + i}}, fourth_);
  }
  EXPECT_EQ(QueuePairsOf(third_), before + XrcExecutors::kMaxStrangersOfProcess);
  Begin({.key = kKey, .target = {4 * kMaxQps + 1'000}}, fourth_);
  EXPECT_EQ(QueuePairsOf(third_), before + XrcExecutors::kMaxStrangersOfProcess + 1);
}

TEST_F(XrcRelayTest, StreamOfAnotherProcessIsNotTaken) {
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  ExpectSuccess(1);
  const size_t before = QueuePairsOf(third_);
  Begin({.key = kKey, .begins = 0, .target = target_->qpn()}, fourth_);  // ends it
  Begin({.key = kKey, .target = {owner_.number * kMaxQps + 77}}, fourth_);
  EXPECT_EQ(QueuePairsOf(third_), before);
  third_.PostReceive(8);
  Send(third_.srqn(), Pattern(10), 2);
  ExpectSuccess(1);
}

// Frames get lost on every way; each message must be executed once all the same.
class LossyXrcRelayTest : public XrcRelayTest, public ::testing::WithParamInterface<uint32_t> {};

TEST_P(LossyXrcRelayTest, NothingIsExecutedTwice) {
  uint32_t random = GetParam();
  drop_ = [&random](Process&, Process&) {
    random = random * 1'664'525 + 1'013'904'223;
    return random >> 28 == 0;
  };
  uint64_t counter = 0;
  for (uint64_t round = 0; round < 40; ++round) {
    third_.PostReceive(round);
    owner_.PostReceive(round);
    const auto bytes = Pattern(5 * kMtuBytes, static_cast<uint8_t>(round));
    Send(third_.srqn(), bytes, 4 * round);
    Post(SendOpcode::kFetchAndAdd, third_.srqn(), 8, 4 * round + 1, &third_, 0, 200'000);
    Send(owner_.srqn(), Pattern(10), 4 * round + 2, 8'192);
    Post(SendOpcode::kRdmaRead, third_.srqn(), 5 * kMtuBytes, 4 * round + 3, &third_, kReceives,
         300'000);
    ExpectSuccess(4);
    ASSERT_TRUE(third_.HasReceived(bytes));
    ASSERT_TRUE(std::equal(bytes.begin(), bytes.end(), first_.memory.begin() + 300'000));
    counter += 5;
    uint64_t now;
    std::memcpy(&now, third_.memory.data(), sizeof now);
    ASSERT_EQ(now, counter) << round;
  }
  EXPECT_EQ(third_.Received().size(), 40u);
  EXPECT_EQ(owner_.Received().size(), 40u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LossyXrcRelayTest, ::testing::Range(1u, 33u));

}  // namespace
}  // namespace uroce::transport
