// SQE, the state of UC and UD after a failed send: the send queue stops, the receive queue keeps
// working, and the application takes the queue pair back to RTS.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

using Mask = QpAttributeMask;

constexpr uint32_t kPart = 256;
constexpr QpState kSqe = QpState::kSendQueueError;
constexpr QpState kRts = QpState::kReadyToSend;

// An unsignaled SEND with a wrong local key.
void PostWrong(Script& script, uint64_t wr_id) {
  const ScatterGatherEntry sge{Script::Address(0), 8, LKey{script.lkey().value ^ 1}};
  SendWorkRequest request;
  request.wr_id = wr_id;
  request.sges = {&sge, 1};
  request.address = &script.peer_address();
  EXPECT_EQ(script.qp().PostSend(request), Status::kOk);
}

class SendQueueErrorTest : public testing::TestWithParam<QpType> {
 protected:
  bool is_datagram() const { return GetParam() == QpType::kUnreliableDatagram; }

  void PostWrong(uint64_t wr_id) { packet_scripts::PostWrong(script_, wr_id); }
  // Leads to SQE with nothing left in the send queue.
  void Fail() {
    PostWrong(99);
    EXPECT_EQ(script_.ExpectCompletion(99, CompletionStatus::kLocalProtectionError).vendor_error,
              VendorError::kLocalKeyInvalid);
    script_.ExpectState(kSqe);
  }

  Script script_{{.type = GetParam()}};
  const Psn first_ = script_.first_psn();
  const Psn peers_ = script_.peers_first_psn();
};

// IBA 10.3.1.6.
TEST_P(SendQueueErrorTest, EarlierRequestsSucceedAndLaterRequestsAreFlushed) {
  script_.HoldTransmit();
  script_.PostReceive(50, 4'096, 64);
  script_.PostSend(1, 0, 8);
  PostWrong(2);
  script_.PostSend(3, 0, 8);
  PostWrong(4);
  script_.ReleaseTransmit();
  script_.ExpectSent(Send(Position::kOnly, first_).With(script_.Bytes(0, 8)));
  script_.ExpectNothingSent();
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2, CompletionStatus::kLocalProtectionError);
  for (const uint64_t wr_id : {3u, 4u}) {
    EXPECT_EQ(script_.ExpectCompletion(wr_id, CompletionStatus::kFlushed).vendor_error,
              VendorError::kFlushedByError);
  }
  script_.ExpectNoCompletion();  // the receive request is not flushed
  script_.ExpectState(kSqe);
  script_.ExpectNoEvent();
}

// IBA C10-38.
TEST_P(SendQueueErrorTest, TheReceiveQueueLivesOn) {
  script_.PostReceive(1, 4'096, 64);
  Fail();
  script_.PostReceive(2, 4'096, 64);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_ + i).With("x")), DropReason::kNone);
    script_.ExpectCompletion(i + 1);
  }
  script_.ExpectState(kSqe);
}

// IBA C10-96.
TEST_P(SendQueueErrorTest, RequestsPostedInSqeAreFlushed) {
  Fail();
  script_.PostSend(1, 0, 8);
  script_.ExpectCompletion(1, CompletionStatus::kFlushed);
  script_.ExpectNothingSent();
  script_.ExpectState(kSqe);
}

// Recovery can be repeated, and PSNs continue where they stopped.
TEST_P(SendQueueErrorTest, RtsRecovers) {
  for (uint32_t i = 0; i < 3; ++i) {
    Fail();
    QpAttributes attributes;
    attributes.state = kRts;
    attributes.current_state = kSqe;
    EXPECT_EQ(script_.qp().Modify(attributes, Mask::kState | Mask::kCurrentState), Status::kOk);
    script_.ExpectNothingSent();
    script_.PostSend(i, 0, 8);
    script_.ExpectSent(Send(Position::kOnly, first_ + i).With(script_.Bytes(0, 8)));
    script_.ExpectCompletion(i);
  }
}

// Changes the one attribute that may be changed on the way.
TEST_P(SendQueueErrorTest, TheAttributeOfTheWayBackTakesEffect) {
  Fail();
  QpAttributes attributes;
  attributes.state = kRts;
  attributes.access = AccessFlags();
  attributes.qkey = 99;
  EXPECT_EQ(script_.qp().Modify(attributes,
                                Mask::kState | (is_datagram() ? Mask::kQkey : Mask::kAccessFlags)),
            Status::kOk);
  script_.PostReceive(1, 4'096, 64);
  if (is_datagram()) {
    script_.ExpectDropped(DropReason::kBadQkey, Send(Position::kOnly, peers_));
  } else {
    script_.ExpectDropped(
        DropReason::kRefused,
        Write(Position::kOnly, peers_, Script::Address(0), script_.rkey(), 1).With("x"));
  }
}

TEST_P(SendQueueErrorTest, ErrFlushesTheReceiveQueueToo) {
  script_.PostReceive(1, 4'096, 64);
  Fail();
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectCompletion(1, CompletionStatus::kFlushed);
  script_.ExpectDropped(DropReason::kQpNotReady, Send(Position::kOnly, peers_));
}

TEST_P(SendQueueErrorTest, ResetRestoresTheSendQueue) {
  Fail();
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.Connect();
  script_.PostSend(1, 0, 8);
  script_.ExpectSent(Send(Position::kOnly, first_).With(script_.Bytes(0, 8)));
  script_.ExpectCompletion(1);
}

// A failed receive request affects more than the send queue: the queue pair goes to ERR.
TEST_P(SendQueueErrorTest, AFailingReceiveLeadsToErr) {
  Fail();
  const ScatterGatherEntry sge{Script::Address(0), 64, LKey{script_.lkey().value ^ 1}};
  EXPECT_EQ(script_.qp().PostReceive({1, {&sge, 1}}), Status::kOk);
  script_.Inject(Send(Position::kOnly, peers_).With("x"));
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script_.ExpectState(QpState::kError);
}

// IBA 11.6.3.2 QP_FATAL: the flush of a request, posted before or after the failure, finds no room.
// The event comes at once, not only when the queue pair is to recover.
class FullCompletionQueueTest : public testing::TestWithParam<QpType> {
 protected:
  FullCompletionQueueTest() {
    script_.HoldTransmit();
    script_.HoldCompletions();
  }
  void ExpectFatal() {
    script_.ExpectEvent(EventType::kCqError);
    script_.ExpectEvent(EventType::kQpFatal);
    script_.ExpectState(QpState::kError);
    script_.ReleaseCompletions();
    script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
    script_.ExpectNoCompletion();
  }

  Script script_{{.type = GetParam(), .cq_capacity = 1}};
};

TEST_P(FullCompletionQueueTest, WhenTheSendQueueFails) {
  PostWrong(script_, 1);
  PostWrong(script_, 2);
  script_.ReleaseTransmit();
  script_.TakeSent();
  ExpectFatal();
}

TEST_P(FullCompletionQueueTest, WhenSomethingIsPostedToTheFailedQueue) {
  PostWrong(script_, 1);
  script_.ReleaseTransmit();
  script_.TakeSent();
  script_.ExpectState(kSqe);
  PostWrong(script_, 2);
  ExpectFatal();
}

INSTANTIATE_TEST_SUITE_P(UnreliableServices, FullCompletionQueueTest,
                         testing::Values(QpType::kUnreliableConnection,
                                         QpType::kUnreliableDatagram));

INSTANTIATE_TEST_SUITE_P(EveryService, SendQueueErrorTest,
                         testing::Values(QpType::kUnreliableConnection,
                                         QpType::kUnreliableDatagram));

// The memory of a message may go away while it is being sent, even while the queue drains.
TEST(SendQueueErrorUcTest, InTheMiddleOfAMessage) {
  for (const QpState state : {kRts, QpState::kSendQueueDrain}) {
    Script script({.type = QpType::kUnreliableConnection});
    script.HoldTransmit();
    script.PostSend(1, 0, 3 * kPart);
    script.PostSend(2, 0, 8);
    script.TransmitOne();
    EXPECT_EQ(script.MoveTo(state), Status::kOk);
    EXPECT_EQ(script.endpoint().memory().Deregister(script.lkey()), Status::kOk);
    script.ReleaseTransmit();
    EXPECT_EQ(script.TakeSent().size(), 1u);
    script.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
    script.ExpectCompletion(2, CompletionStatus::kFlushed);
    script.ExpectState(kSqe);
  }
}

// RC has no SQE: the connection ends.
TEST(SendQueueErrorRcTest, OnRcTheSameLeadsToErr) {
  Script script;
  script.PostReceive(50, 4'096, 64);
  EXPECT_EQ(script.endpoint().memory().Deregister(script.lkey()), Status::kOk);
  script.PostSend(1, 0, 8);
  script.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script.ExpectCompletion(50, CompletionStatus::kFlushed);
  script.ExpectState(QpState::kError);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
