// A peer on a link that has refused a message for want of a receive request tells the sender when
// it has one: the sender does not wait for the time of the RNR NAK, 655 ms with rdma_cm.

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "tests/transport/linked_processes.h"
#include "transport/endpoint.h"

namespace uroce::transport {
namespace {

void PostSend(TestHost& from) {
  const ScatterGatherEntry sge = {from.address(0), 8, from.key};
  SendWorkRequest request;
  request.opcode = SendOpcode::kSend;
  request.signaled = true;
  request.sges = {&sge, 1};
  ASSERT_EQ(from.qp->PostSend(request), Status::kOk);
}

// With header prediction and without.
class UnreadyReceiverTest : public ::testing::TestWithParam<bool> {
 protected:
  // New queue pairs; the second process has a shared queue for receive requests.
  void ConnectWithSharedQueue(uint8_t rnr_retry = 7) {
    for (TestHost* const host : {&pair_.first, &pair_.second}) {
      QpInitAttributes init = host->qp->init_attributes();
      init.srq = host == &pair_.second ? shared_.get() : nullptr;
      ASSERT_EQ(host->endpoint.CreateQueuePair(init, &host->qp), Status::kOk);
    }
    const Qpn first = pair_.first.qp->qpn();
    const Qpn second = pair_.second.qp->qpn();
    pair_.first.Connect(kHostGid, kHostMac, second, 1, Mtu::k1024, rnr_retry);
    pair_.second.Connect(kHostGid, kHostMac, first, 1, Mtu::k1024);
  }
  void PostSharedReceive() {
    const ScatterGatherEntry sge = {pair_.second.address(0), 64, pair_.second.key};
    ASSERT_EQ(shared_->Post({.sges = {&sge, 1}}), Status::kOk);
  }
  void PostReceive() {
    const ScatterGatherEntry sge = {pair_.second.address(0), 64, pair_.second.key};
    ASSERT_EQ(pair_.second.qp->PostReceive({.sges = {&sge, 1}}), Status::kOk);
  }
  // The first process sends a message that the second one refuses.
  void SendInVain() {
    PostSend(pair_.first);
    EXPECT_EQ(pair_.Receive(pair_.Send()), DropReason::kReceiverNotReady);
  }
  void ExpectSendSucceeds() {
    EXPECT_EQ(pair_.Receive(pair_.Send()), DropReason::kNone);
    EXPECT_TRUE(pair_.Answer());
    const auto completions = pair_.first.Poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
  }
  Counters counters() { return pair_.first.endpoint.counters(); }

  LinkedProcesses pair_{GetParam()};
  std::unique_ptr<SharedReceiveQueue> shared_ = pair_.second.endpoint.CreateSharedReceiveQueue(
      {.pd = kTestPd, .max_work_requests = 8, .max_sges = 1});
};

TEST_P(UnreadyReceiverTest, ReceiveRequestEndsTheWait) {
  for (int i = 0; i < 3; ++i) {
    SendInVain();
    EXPECT_TRUE(pair_.Answer());
    EXPECT_TRUE(pair_.Send().empty());
    EXPECT_FALSE(pair_.Answer()) << "there is no receive request yet";
    PostReceive();
    EXPECT_TRUE(pair_.Answer());
    ExpectSendSucceeds();
  }
  EXPECT_EQ(counters().rnr_naks_received, 3u);
  EXPECT_EQ(counters().retransmitted_packets, 3u);
}

TEST_P(UnreadyReceiverTest, ReceiveRequestThatComesBeforeTheNakIsSentFollowsIt) {
  SendInVain();
  PostReceive();
  EXPECT_TRUE(pair_.Answer());
  EXPECT_TRUE(pair_.Send().empty());
  EXPECT_TRUE(pair_.Answer());
  ExpectSendSucceeds();
}

TEST_P(UnreadyReceiverTest, FurtherReceiveRequestsAreNotTold) {
  SendInVain();
  EXPECT_TRUE(pair_.Answer());
  PostReceive();
  EXPECT_TRUE(pair_.Answer());
  PostReceive();
  EXPECT_FALSE(pair_.Answer());
  ExpectSendSucceeds();
  PostReceive();
  EXPECT_FALSE(pair_.Answer());
}

// The count of rnr_retry is of waits that have passed in vain.
TEST_P(UnreadyReceiverTest, WaitThatEndsEarlyTakesNoRetry) {
  ConnectWithSharedQueue(/*rnr_retry=*/1);
  SendInVain();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(pair_.Answer());
    PostSharedReceive();
    EXPECT_TRUE(pair_.Answer());
    std::array<ScatterGatherEntry, 1> room;
    shared_->Take(room);  // another queue pair is faster
    EXPECT_EQ(pair_.Receive(pair_.Send()), DropReason::kReceiverNotReady);
  }
  EXPECT_TRUE(pair_.first.Poll().empty());
  EXPECT_TRUE(pair_.Answer());
  pair_.now = pair_.now + Microseconds(10);  // the time of the RNR NAK
  pair_.first.endpoint.OnDeadline(pair_.now);
  EXPECT_EQ(pair_.Receive(pair_.Send()), DropReason::kReceiverNotReady);
  EXPECT_TRUE(pair_.Answer());
  const auto completions = pair_.first.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRnrRetryExceeded);
}

TEST_P(UnreadyReceiverTest, RequestOfASharedQueueIsToldToTheOldestThatWaits) {
  std::vector<QueuePair*> receivers;
  for (int i = 0; i < 3; ++i) {
    ConnectWithSharedQueue();
    receivers.push_back(pair_.second.qp);
    SendInVain();
    EXPECT_TRUE(pair_.Answer());
  }
  pair_.second.endpoint.DestroyQueuePair(receivers[0]);
  for (int i = 1; i < 3; ++i) {
    EXPECT_FALSE(pair_.Answer());
    PostSharedReceive();
    EXPECT_TRUE(pair_.Answer());
    EXPECT_FALSE(pair_.Answer()) << "one request is for one message";
    ExpectSendSucceeds();
  }
}

TEST_P(UnreadyReceiverTest, QueuePairInErrorTellsNothing) {
  SendInVain();
  EXPECT_TRUE(pair_.Answer());
  QpAttributes error;
  error.state = QpState::kError;
  ASSERT_EQ(pair_.second.qp->Modify(error, QpAttributeMask::kState), Status::kOk);
  PostReceive();
  EXPECT_FALSE(pair_.Answer());
}

INSTANTIATE_TEST_SUITE_P(Ways, UnreadyReceiverTest, ::testing::Bool());

// On a wire the sender waits as long as the RNR NAK says (IBA 9.7.5.2.8).
TEST(UnreadyReceiverOnAWireTest, ReceiveRequestIsNotTold) {
  ConnectedPair pair;
  PostSend(pair.client);
  EXPECT_TRUE(pair.Move(pair.client.endpoint, pair.server.endpoint));
  EXPECT_EQ(pair.last_drop, DropReason::kReceiverNotReady);
  EXPECT_TRUE(pair.Move(pair.server.endpoint, pair.client.endpoint));
  pair.PostReceive(64);
  EXPECT_FALSE(pair.Move(pair.server.endpoint, pair.client.endpoint));
  EXPECT_FALSE(pair.Move(pair.client.endpoint, pair.server.endpoint));
  pair.now = pair.now + Microseconds(10);
  pair.client.endpoint.OnDeadline(pair.now);
  pair.Exchange();
  EXPECT_EQ(pair.client.Poll().size(), 1u);
}

}  // namespace
}  // namespace uroce::transport
