// Requests that leave as they are posted, without a turn in the transmit schedule.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

class SendAtOnceTest : public ::testing::Test {
 protected:
  Endpoint& endpoint() { return pair_.client.endpoint; }
  QueuePair& qp() { return *pair_.client.qp; }

  void Queue(SendOpcode opcode, uint32_t length, bool fence = false) {
    SendWorkRequest request = pair_.Request(opcode, length);
    request.fence = fence;
    ASSERT_EQ(qp().QueueSend(request), Status::kOk);
  }
  bool MaySendAtOnce() { return endpoint().MaySendAtOnce(qp()); }
  std::vector<uint8_t> BuildAtOnce() {
    const size_t bytes = endpoint().BuildAtOnce(pair_.now, qp(), pair_.frame);
    return {pair_.frame.begin(), pair_.frame.begin() + bytes};
  }
  void Deliver(const std::vector<uint8_t>& frame) {
    EXPECT_EQ(pair_.server.endpoint.OnFrame(pair_.now, frame), DropReason::kNone);
    pair_.Exchange();
  }

  ConnectedPair pair_;
};

TEST_F(SendAtOnceTest, FrameIsTheOneThatATurnWouldSend) {
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kSend}) {
    pair_.PostReceive(64);
    Queue(opcode, 61);
    ASSERT_TRUE(MaySendAtOnce());
    const std::vector<uint8_t> at_once = BuildAtOnce();

    ConnectedPair other;
    other.client.memory = pair_.client.memory;
    SendWorkRequest request = pair_.Request(opcode, 61);
    const ScatterGatherEntry sge = {other.client.address(0), 61, other.client.key};
    request.sges = {&sge, 1};
    ASSERT_EQ(other.client.qp->PostSend(request), Status::kOk);
    const size_t bytes = other.client.endpoint.PollTransmit(other.now, Route::kWire, other.frame);
    ASSERT_EQ(at_once.size(), bytes);
    // Compares up to the BTH: keys and queue pair numbers differ between the pairs.
    EXPECT_TRUE(std::equal(at_once.begin(), at_once.begin() + 44, other.frame.begin()));

    Deliver(at_once);
    const auto completions = pair_.client.Poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
    pair_.server.Poll();
  }
  EXPECT_EQ(endpoint().counters().transmitted_packets, 2u);
}

TEST_F(SendAtOnceTest, AckTimerRuns) {
  Queue(SendOpcode::kRdmaWrite, 8);
  BuildAtOnce();
  EXPECT_LT(endpoint().NextDeadline(), kNever);
  EXPECT_FALSE(endpoint().HasTransmit());
}

TEST_F(SendAtOnceTest, OnlyTheRequestThatWasQueuedLastWaits) {
  Queue(SendOpcode::kRdmaWrite, 8);
  Queue(SendOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(MaySendAtOnce());
  qp().SendsPosted();
  pair_.Exchange();
  EXPECT_EQ(pair_.client.Poll().size(), 2u);
}

TEST_F(SendAtOnceTest, RequestsThatAreNotPlainTakeTheirTurn) {
  Queue(SendOpcode::kRdmaRead, 8);
  EXPECT_FALSE(MaySendAtOnce());
  qp().SendsPosted();
  pair_.Exchange();
  Queue(SendOpcode::kRdmaWrite, 8, /*fence=*/true);
  EXPECT_FALSE(MaySendAtOnce());
  qp().SendsPosted();
  pair_.Exchange();
  Queue(SendOpcode::kRdmaWrite, Bytes(Mtu::k1024) + 1);
  EXPECT_FALSE(MaySendAtOnce());
  qp().SendsPosted();
  pair_.Exchange();
  EXPECT_EQ(pair_.client.Poll().size(), 3u);
}

TEST_F(SendAtOnceTest, NoRequestIsSentAtOnceOutsideReadyToSend) {
  QpAttributes attributes;
  attributes.state = QpState::kSendQueueDrain;
  ASSERT_EQ(qp().Modify(attributes, QpAttributeMask::kState), Status::kOk);
  Queue(SendOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(MaySendAtOnce());
  attributes.state = QpState::kReadyToSend;
  ASSERT_EQ(qp().Modify(attributes, QpAttributeMask::kState), Status::kOk);
  pair_.Exchange();
  EXPECT_EQ(pair_.client.Poll().size(), 1u);
  Queue(SendOpcode::kRdmaWrite, 8);
  EXPECT_TRUE(MaySendAtOnce());
}

// One ACK for messages of one and of several packets, some of them SENDs, some unsignaled.
TEST_F(SendAtOnceTest, OneAckCompletesAllRequestsInTheirOrder) {
  constexpr uint32_t kLong = Bytes(Mtu::k1024) + 1;
  const uint32_t lengths[] = {8, kLong, 8, 8, kLong, 8};
  pair_.PostReceive(64);
  ASSERT_EQ(qp().PostSend(pair_.Request(SendOpcode::kRdmaWrite, 8)), Status::kOk);
  pair_.Exchange();  // the ACK brings the credit for the receive request
  ASSERT_EQ(pair_.client.Poll().size(), 1u);
  std::vector<std::vector<uint8_t>> frames;
  for (uint64_t i = 0; i < std::size(lengths); ++i) {
    SendWorkRequest request =
        pair_.Request(i == 2 ? SendOpcode::kSend : SendOpcode::kRdmaWrite, lengths[i]);
    request.wr_id = i;
    request.signaled = i != 3;
    ASSERT_EQ(qp().PostSend(request), Status::kOk);
    while (const size_t bytes = endpoint().PollTransmit(pair_.now, Route::kWire, pair_.frame)) {
      frames.emplace_back(pair_.frame.begin(), pair_.frame.begin() + bytes);
    }
  }
  EXPECT_EQ(frames.size(), 8u);
  for (const auto& frame : frames) {
    EXPECT_EQ(pair_.server.endpoint.OnFrame(pair_.now, frame), DropReason::kNone);
  }
  pair_.Exchange();
  std::vector<uint64_t> completed;
  for (const Completion& completion : pair_.client.Poll()) completed.push_back(completion.wr_id);
  EXPECT_EQ(completed, (std::vector<uint64_t>{0, 1, 2, 4, 5}));
}

TEST_F(SendAtOnceTest, NoRequestOvertakesAnotherQueuePair) {
  using M = QpAttributeMask;
  QueuePair* other = nullptr;
  ASSERT_EQ(endpoint().CreateQueuePair(qp().init_attributes(), &other), Status::kOk);
  QpAttributes a = qp().Query();
  for (const auto& [state, mask] :
       {std::pair(QpState::kInit, M::kPkeyIndex | M::kPort | M::kAccessFlags),
        std::pair(QpState::kReadyToReceive, M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                                M::kRqPsn | M::kMaxDestReadAtomic |
                                                M::kMinRnrTimer),
        std::pair(QpState::kReadyToSend,
                  M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic)}) {
    a.state = state;
    ASSERT_EQ(other->Modify(a, M::kState | mask), Status::kOk);
  }
  ASSERT_EQ(other->PostSend(pair_.Request(SendOpcode::kRdmaWrite, 8)), Status::kOk);
  Queue(SendOpcode::kRdmaWrite, 8);
  EXPECT_FALSE(MaySendAtOnce());
  endpoint().DestroyQueuePair(other);
  EXPECT_TRUE(MaySendAtOnce());
}

TEST_F(SendAtOnceTest, DataThatCannotBeReadIsLeftToTheTurn) {
  const ScatterGatherEntry sge = {pair_.client.address(0), 8, LKey{pair_.client.key.value + 1}};
  SendWorkRequest request = pair_.Request(SendOpcode::kRdmaWrite, 8);
  request.sges = {&sge, 1};
  ASSERT_EQ(qp().QueueSend(request), Status::kOk);
  ASSERT_TRUE(MaySendAtOnce());
  EXPECT_TRUE(BuildAtOnce().empty());
  EXPECT_TRUE(pair_.client.Poll().empty());
  qp().SendsPosted();
  pair_.Exchange();
  const auto completions = pair_.client.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kLocalProtectionError);
}

}  // namespace
}  // namespace uroce::transport
