// Each way to detect a loss, and what happens when the lost packet never arrives.
// The exact times are in tests/transport/timers.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr Duration kAckTimeout{int64_t{4'096} << 8};
constexpr uint8_t kTimeout = 8;
constexpr uint8_t kRnrTimer = 1;  // 10 us
constexpr Duration kRnrWait = Microseconds(10);

class RetryTest : public testing::Test {
 protected:
  explicit RetryTest(const Script::Options& options = {.timeout = kTimeout,
                                                       .retry_count = 2,
                                                       .rnr_retry = 2})
      : script_(options) {
    script_.PostSend(1, 0, 10);
    script_.PostSend(2, 64, 10);
    requests_ = script_.TakeSent();
    EXPECT_EQ(requests_.size(), 2u);
  }
  void ExpectSentAgain() {
    script_.ExpectSent(requests_[0]);
    script_.ExpectSent(requests_[1]);
    script_.ExpectNothingSent();
    script_.ExpectNoCompletion();
  }
  // The responses may only be late: the oldest packet asks what is missing.
  void ExpectOldestSentAgain() {
    script_.ExpectSent(requests_[0]);
    script_.ExpectNothingSent();
    script_.ExpectNoCompletion();
  }
  void ExpectGivenUp(CompletionStatus status, VendorError reason) {
    EXPECT_EQ(script_.ExpectCompletion(1, status).vendor_error, reason);
    EXPECT_EQ(script_.ExpectCompletion(2, CompletionStatus::kFlushed).vendor_error,
              VendorError::kFlushedByError);
    script_.ExpectState(QpState::kError);
    script_.ExpectNothingSent();
    script_.ExpectNoDeadline();
    script_.ExpectNoEvent();  // the completion reports it
  }
  void PsnNak() { script_.Inject(Nak(first_, NakCode::kPsnSequenceError)); }
  void Rnr() { script_.Inject(RnrNak(first_, kRnrTimer)); }

  Script script_;
  std::vector<PacketSpec> requests_;
  const Psn first_ = script_.first_psn();
};

class EndlessRnrTest : public RetryTest {
 protected:
  EndlessRnrTest() : RetryTest({.timeout = kTimeout, .retry_count = 2, .rnr_retry = 7}) {}
};

TEST_F(RetryTest, Silence) {
  for (int retry = 0; retry < 2; ++retry) {
    script_.Advance(kAckTimeout);
    ExpectOldestSentAgain();
  }
  script_.Advance(kAckTimeout);
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kAckTimeout);
}

// The answer to the packet that was sent again after a timeout tells which others follow.
TEST_F(RetryTest, AnAnswerAfterASilenceShowsWhatIsMissing) {
  script_.Advance(kAckTimeout);
  ExpectOldestSentAgain();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ExpectSent(requests_[1]);
  script_.ExpectNothingSent();
}

TEST_F(RetryTest, NothingFollowsASilenceIfTheResponsesWereLate) {
  script_.Advance(kAckTimeout);
  ExpectOldestSentAgain();
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().retransmitted_packets, 1u);
}

TEST_F(RetryTest, NaksForGaps) {
  for (int retry = 0; retry < 2; ++retry) {
    PsnNak();
    ExpectSentAgain();
  }
  PsnNak();
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kPsnNakRetries);
}

TEST_F(RetryTest, ReceiverNotReady) {
  for (int retry = 0; retry < 2; ++retry) {
    Rnr();
    script_.ExpectNothingSent();
    script_.Advance(kRnrWait);
    ExpectSentAgain();
  }
  Rnr();
  ExpectGivenUp(CompletionStatus::kRnrRetryExceeded, VendorError::kRnrRetries);
}

// IBA 9.9.2.4.1: silence and NAKs for gaps share a count, RNR NAKs have their own.
TEST_F(RetryTest, SilenceAndGapsShareACountAndRnrHasItsOwn) {
  PsnNak();
  ExpectSentAgain();
  Rnr();
  script_.Advance(kRnrWait);
  ExpectSentAgain();
  script_.Advance(kAckTimeout);
  ExpectOldestSentAgain();
  Rnr();
  script_.Advance(kRnrWait);
  ExpectSentAgain();
  PsnNak();  // for packets after the one that got the RNR NAK: see below
  ExpectSentAgain();
  PsnNak();
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kPsnNakRetries);
}

// rxe answers the packets after a request that it cannot receive with a NAK for a gap. That NAK may
// come when the wait is over and everything has been sent again.
TEST_F(EndlessRnrTest, TheNakThatFollowsAnRnrNakIsNoRetry) {
  for (int i = 0; i < 20; ++i) {
    Rnr();
    script_.Advance(kRnrWait);
    ExpectSentAgain();
    PsnNak();
    ExpectSentAgain();
  }
  // During the wait that NAK has no effect. Every RNR NAK allows one, even a repeated RNR NAK.
  Rnr();
  PsnNak();
  Rnr();
  script_.ExpectNothingSent();
  script_.Advance(kRnrWait);
  ExpectSentAgain();
  PsnNak();
  ExpectSentAgain();
  // Every further NAK counts as a retry.
  for (int retry = 0; retry < 2; ++retry) {
    PsnNak();
    ExpectSentAgain();
  }
  PsnNak();
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kPsnNakRetries);
}

// IBA 9.9.2.4.1: any progress restarts both counts.
TEST_F(RetryTest, ProgressStartsBothCountsAfresh) {
  for (int retry = 0; retry < 2; ++retry) {
    PsnNak();
    Rnr();
    script_.Advance(kRnrWait);
  }
  script_.TakeSent();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  for (int retry = 0; retry < 2; ++retry) {
    script_.Inject(Nak(first_ + 1, NakCode::kPsnSequenceError));
    script_.ExpectSent(requests_[1]);
    script_.Inject(RnrNak(first_ + 1, kRnrTimer));
    script_.Advance(kRnrWait);
    script_.ExpectSent(requests_[1]);
  }
  script_.Inject(Nak(first_ + 1, NakCode::kPsnSequenceError));
  script_.ExpectCompletion(2, CompletionStatus::kRetryExceeded);
}

// A NAK for the second request acknowledges the first, which is progress.
TEST_F(RetryTest, ANakForALaterRequestIsProgress) {
  PsnNak();
  PsnNak();
  script_.TakeSent();
  script_.Inject(Nak(first_ + 1, NakCode::kPsnSequenceError));
  script_.ExpectCompletion(1);
  script_.ExpectSent(requests_[1]);
  script_.ExpectState(QpState::kReadyToSend);
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(2);
}

// A packet that is acknowledged before it could be sent again is not sent again.
TEST_F(RetryTest, AnAckOvertakesTheResend) {
  script_.HoldTransmit();
  PsnNak();
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  script_.ReleaseTransmit();
  script_.ExpectNothingSent();
  script_.PostSend(3, 0, 10);
  script_.ExpectSent(Send(Position::kOnly, first_ + 2).With(script_.Bytes(0, 10)));
  script_.ExpectNoCompletion();
}

TEST_F(RetryTest, AnAckOvertakesPartOfTheResend) {
  script_.HoldTransmit();
  PsnNak();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ReleaseTransmit();
  script_.ExpectSent(requests_[1]);
  script_.ExpectNothingSent();
}

class NoRetryTest : public RetryTest {
 protected:
  NoRetryTest() : RetryTest({.timeout = kTimeout, .retry_count = 0, .rnr_retry = 0}) {}
};

TEST_F(NoRetryTest, TheFirstSilenceIsTheEnd) {
  script_.Advance(kAckTimeout);
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kAckTimeout);
}

TEST_F(NoRetryTest, TheFirstGapIsTheEnd) {
  PsnNak();
  ExpectGivenUp(CompletionStatus::kRetryExceeded, VendorError::kPsnNakRetries);
}

TEST_F(NoRetryTest, TheFirstRnrNakIsTheEnd) {
  Rnr();
  ExpectGivenUp(CompletionStatus::kRnrRetryExceeded, VendorError::kRnrRetries);
}

// rnr_retry 7 means for ever.
TEST(RnrRetryTest, SevenNeverEnds) {
  Script script({.rnr_retry = 7});
  script.PostSend(1, 0, 10);
  const auto requests = script.TakeSent();
  for (int i = 0; i < 100; ++i) {
    script.Inject(RnrNak(script.first_psn(), kRnrTimer));
    script.Advance(kRnrWait);
    script.ExpectSent(requests[0]);
  }
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
}

class ImpliedNakTest : public testing::Test {
 protected:
  ImpliedNakTest() {
    script_.PostRead(1, 0, 8);
    script_.PostSend(2, 64, 10);
    requests_ = script_.TakeSent();
  }
  void ExpectSentAgain() {
    script_.ExpectSent(requests_[0]);
    script_.ExpectSent(requests_[1]);
    script_.ExpectNothingSent();
  }

  Script script_{{.timeout = kTimeout, .retry_count = 2}};
  std::vector<PacketSpec> requests_;
  const Psn first_ = script_.first_psn();
};

// IBA 9.7.5.1.2: a response to a later request shows that the response to the READ was lost.
TEST_F(ImpliedNakTest, AnAckBehindARead) {
  script_.ExpectDropped(DropReason::kOutOfOrderResponse, Ack(first_ + 1));
  ExpectSentAgain();
  EXPECT_EQ(script_.counters().implied_naks, 1u);
}

TEST_F(ImpliedNakTest, ANakBehindARead) {
  script_.ExpectDropped(DropReason::kOutOfOrderResponse,
                        Nak(first_ + 1, NakCode::kRemoteAccessError));
  ExpectSentAgain();
  script_.ExpectNoCompletion();
  script_.ExpectState(QpState::kReadyToSend);
}

TEST_F(ImpliedNakTest, AnRnrNakBehindARead) {
  script_.ExpectDropped(DropReason::kOutOfOrderResponse, RnrNak(first_ + 1, kRnrTimer));
  ExpectSentAgain();
}

TEST_F(ImpliedNakTest, AnotherReadsResponse) {
  Script script;
  script.PostRead(1, 0, 8);
  script.PostRead(2, 64, 8);
  const auto requests = script.TakeSent();
  script.ExpectDropped(DropReason::kOutOfOrderResponse,
                       ReadResponse(Position::kOnly, script.first_psn() + 1).With(Pattern(8)));
  script.ExpectSent(requests[0]);
  script.ExpectSent(requests[1]);
  EXPECT_EQ(script.Bytes(64, 8), std::vector<uint8_t>(8)) << "in order or not at all";
}

TEST_F(ImpliedNakTest, AnAtomicsResponseBehindALostAtomic) {
  Script script;
  script.PostFetchAdd(1, 0, 1);
  script.PostFetchAdd(2, 64, 1);
  const auto requests = script.TakeSent();
  script.ExpectDropped(DropReason::kOutOfOrderResponse, AtomicAck(script.first_psn() + 1, 7));
  script.ExpectSent(requests[0]);
  script.ExpectSent(requests[1]);
  EXPECT_EQ(script.Word(64), 0u);
  script.Inject(AtomicAck(script.first_psn(), 6));
  script.Inject(AtomicAck(script.first_psn() + 1, 7));
  script.ExpectCompletion(1);
  script.ExpectCompletion(2);
  EXPECT_EQ(script.Word(0), 6u);
  EXPECT_EQ(script.Word(64), 7u);
}

// The requester asks at once for each lost response, however many there are.
TEST_F(ImpliedNakTest, ProgressMakesTheNextLossNews) {
  Script script;
  for (uint64_t i = 1; i <= 3; ++i) script.PostRead(i, 8 * i, 8);
  const auto requests = script.TakeSent();
  ASSERT_EQ(requests.size(), 3u);
  const auto response = [&](uint32_t i) {
    return ReadResponse(Position::kOnly, first_ + i).With(Pattern(8));
  };
  script.Inject(response(1));
  EXPECT_EQ(script.TakeSent().size(), 3u);
  script.Inject(response(0));
  script.ExpectCompletion(1);
  script.Inject(response(2));
  script.ExpectSent(requests[1]);
  script.ExpectSent(requests[2]);
  script.ExpectNothingSent();
  EXPECT_EQ(script.counters().implied_naks, 2u);
}

// The requester keeps to an RNR wait, whatever other responses arrive.
TEST_F(ImpliedNakTest, NotDuringAnRnrWait) {
  script_.Inject(RnrNak(first_, kRnrTimer));
  script_.Inject(Ack(first_ + 1));
  script_.ExpectNothingSent();
  script_.Advance(kRnrWait);
  ExpectSentAgain();
}

// A peer that answers everything but the READ does not keep us busy for ever.
TEST_F(ImpliedNakTest, AReadThatIsNeverAnswered) {
  for (int retry = 0; retry < 2; ++retry) {
    script_.Inject(Ack(first_ + 1));
    ExpectSentAgain();
    script_.Inject(Ack(first_ + 1));  // nothing new
    script_.ExpectNothingSent();
    script_.Advance(kAckTimeout);
    script_.ExpectSent(requests_[0]);
    script_.ExpectNothingSent();
  }
  script_.Inject(Ack(first_ + 1));
  ExpectSentAgain();
  script_.Advance(kAckTimeout);
  script_.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
