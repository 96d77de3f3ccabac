// Receive requests from a shared queue (IBA 10.2.9), on RC; the tests of UC and UD cover those
// services.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

class SharedReceiveTest : public testing::Test {
 protected:
  void SendOnly(Psn psn) {
    script_.Inject(Send(Position::kOnly, psn).With("x"));
    script_.ExpectSent(Ack(psn));
  }

  Script script_{{.shared_receive_queue = true, .queue_depth = 4}};
  const Psn first_ = script_.peers_first_psn();
};

TEST_F(SharedReceiveTest, RequestsAreTakenInTheirOrder) {
  for (uint64_t i = 1; i <= 3; ++i) script_.PostReceive(i, 4'096, 16);
  for (uint32_t i = 0; i < 3; ++i) {
    SendOnly(first_ + i);
    const auto completion = script_.ExpectCompletion(i + 1);
    EXPECT_EQ(completion.qpn, script_.qp().qpn()) << "it says who took it";
  }
  script_.Inject(Send(Position::kOnly, first_ + 3));
  script_.ExpectSent(RnrNak(first_ + 3, 12));
}

// Requests are posted to the shared queue; a queue pair that uses it has no receive queue.
TEST_F(SharedReceiveTest, TheQueuePairTakesNoPosts) {
  EXPECT_EQ(script_.qp().PostReceive({}), Status::kInvalidArgument);
}

TEST_F(SharedReceiveTest, PostBeyondTheGrantedSizeIsRefused) {
  for (uint64_t i = 0; i < 4; ++i) script_.PostReceive(i, 4'096, 16);
  EXPECT_EQ(script_.srq().Post({}), Status::kNoMemory);
  const ScatterGatherEntry sges[5] = {};
  EXPECT_EQ(script_.srq().Post({9, sges}), Status::kInvalidArgument) << "four entries at most";
}

// IBA 11.6.3.1 SRQ_LIMIT_REACHED: once, when fewer requests are left than the limit; then the limit
// must be set again.
TEST_F(SharedReceiveTest, LimitReachedIsRaisedOnce) {
  for (uint64_t i = 1; i <= 4; ++i) script_.PostReceive(i, 4'096, 16);
  EXPECT_EQ(script_.srq().SetLimit(3), Status::kOk);
  SendOnly(first_);
  script_.ExpectNoEvent();  // three are left
  SendOnly(first_ + 1);
  script_.ExpectEvent(EventType::kSrqLimitReached);
  EXPECT_EQ(script_.srq().limit(), 0u);
  SendOnly(first_ + 2);
  script_.ExpectNoEvent();
  EXPECT_EQ(script_.srq().SetLimit(1), Status::kOk);
  script_.PostReceive(5, 4'096, 16);
  script_.ExpectNoEvent();
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  SendOnly(first_ + 3);
  script_.ExpectCompletion(4);
  script_.ExpectNoEvent();
  SendOnly(first_ + 4);
  script_.ExpectCompletion(5);
  script_.ExpectEvent(EventType::kSrqLimitReached);
}

// IBA 11.6.3.1 LAST_WQE_REACHED: this queue pair uses no request of the queue any more. The
// requests stay for other queue pairs.
TEST_F(SharedReceiveTest, ErrReturnsNoRequestsAndRaisesLastWqeReached) {
  script_.PostReceive(1, 4'096, 16);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectNoCompletion();
  script_.ExpectEvent(EventType::kLastWqeReached);
  EXPECT_FALSE(script_.srq().empty());
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectNoEvent();
}

TEST_F(SharedReceiveTest, TheRequestInUseIsFlushedInErr) {
  script_.BeginMessageFor(1, 2);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectCompletion(1, CompletionStatus::kFlushed);
  script_.ExpectNoCompletion();
  script_.ExpectEvent(EventType::kLastWqeReached);
}

TEST_F(SharedReceiveTest, ResetTakesTheRequestInUseWithIt) {
  script_.BeginMessageFor(1, 2);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.ExpectNoCompletion();
  script_.ExpectNoEvent();
  script_.Connect();
  SendOnly(first_);
  script_.ExpectCompletion(2);
}

// A refused message completes only the request that it has taken.
// IBA C9-222.1.1.
TEST_F(SharedReceiveTest, ARefusedMessageCompletesItsRequestInError) {
  script_.PostReceive(1, 4'096, kPart);
  script_.PostReceive(2, 4'096, kPart);
  script_.Inject(Send(Position::kFirst, first_).With(Pattern(kPart)));
  script_.Inject(Send(Position::kLast, first_ + 1).With("x"));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kInvalidRequest));
  script_.ExpectCompletion(1, CompletionStatus::kLocalLengthError);
  script_.ExpectNoCompletion();
  script_.ExpectEvent(EventType::kLastWqeReached);
  script_.ExpectNoEvent();
}

// The memory of a request belongs to the queue's protection domain, not to the queue pair's.
TEST(SharedReceiveDomainTest, TheMemoryIsThatOfTheQueue) {
  Script script({.shared_receive_queue = true});
  const auto key = script.endpoint().memory().Register({PdId{Script::kPd.value + 1}, Script::kIova,
                                                        script.memory(), 64,
                                                        AccessFlags(AccessFlags::kLocalWrite)});
  const ScatterGatherEntry foreign{Script::kIova, 16, *key};
  EXPECT_EQ(script.srq().Post({1, {&foreign, 1}}), Status::kOk);
  script.Inject(Send(Position::kOnly, script.peers_first_psn()).With("x"));
  script.ExpectSent(Nak(script.peers_first_psn(), NakCode::kRemoteOperationalError));
  script.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script.ExpectEvent(EventType::kLastWqeReached);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
