// How a requester reacts to silence long before the ACK timeout, and to a loss while it recovers
// from another one.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr Duration kAckTimeout{int64_t{4'096} << 14};  // 67 ms
constexpr Duration kInstant{1};

class TailProbeTest : public testing::Test {
 protected:
  explicit TailProbeTest(const Script::Options& options = {.retry_count = 1, .probes = true})
      : script_(options) {}

  // Posts requests of one packet each, which get no response.
  void PostWrites(int count) {
    for (int i = 0; i < count; ++i) script_.PostWrite(i + 1, 64 * i, 10);
    requests_ = script_.TakeSent();
    ASSERT_EQ(requests_.size(), static_cast<size_t>(count));
  }
  void PostWritesOfWhichTheProbeIsAnswered(int count) {
    PostWrites(count);
    script_.Advance(RoundTripTime::kInitialSilence);
    script_.ExpectSent(requests_[0]);
    script_.Inject(Ack(first_));
    script_.ExpectCompletion(1);
  }
  // Posts a request that is acknowledged after `round_trip`. Returns the packets of one more.
  std::vector<PacketSpec> PostAfterRoundTrip(Duration round_trip) {
    PostWrites(1);
    script_.Advance(round_trip);
    script_.Inject(Ack(first_));
    script_.ExpectCompletion(1);
    script_.PostWrite(2, 64, 10);
    return script_.TakeSent();
  }
  void ExpectSilenceUntil(Duration silence) {
    script_.Advance(silence - kInstant);
    script_.ExpectNothingSent();
    script_.Advance(kInstant);
  }

  Script script_;
  std::vector<PacketSpec> requests_;
  const Psn first_ = script_.first_psn();
};

TEST_F(TailProbeTest, TheOldestPacketGoesOnceMoreAndAlone) {
  PostWrites(3);
  ExpectSilenceUntil(RoundTripTime::kInitialSilence);
  EXPECT_TRUE(script_.ExpectSent(requests_[0]).ack_request);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().probes, 1u);
  EXPECT_EQ(script_.counters().ack_timeouts, 0u);
  script_.TakeSent();
}

// A packet in the middle of a message asks for no response, unless it is a probe.
TEST_F(TailProbeTest, AProbeAsksForAResponse) {
  script_.PostWrite(1, 0, 600);  // three packets
  requests_ = script_.TakeSent();
  ASSERT_EQ(requests_.size(), 3u);
  EXPECT_FALSE(requests_[0].ack_request);
  script_.Advance(RoundTripTime::kInitialSilence);
  const auto sent = script_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].psn, first_);
  EXPECT_TRUE(sent[0].ack_request);
}

TEST_F(TailProbeTest, RequestsNotAcknowledgedByTheAnswerAreResent) {
  PostWritesOfWhichTheProbeIsAnswered(3);
  script_.ExpectSent(requests_[1]);
  script_.ExpectSent(requests_[2]);
  script_.ExpectNothingSent();
}

TEST_F(TailProbeTest, OnlyTheAcknowledgementWasLost) {
  PostWrites(3);
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  script_.Inject(Ack(first_ + 2));
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  script_.ExpectNothingSent();
  script_.ExpectNoDeadline();
}

TEST_F(TailProbeTest, ARequestPostedMeanwhileWaitsForTheAnswer) {
  PostWrites(1);
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  script_.PostWrite(2, 64, 10);
  script_.ExpectNothingSent();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
}

TEST_F(TailProbeTest, NoRequestIsSentAtOnceBehindAProbe) {
  PostWrites(1);
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  const ScatterGatherEntry sge{Script::Address(0), 8, script_.lkey()};
  SendWorkRequest write = Script::Request(2, SendOpcode::kRdmaWrite);
  write.sges = {&sge, 1};
  ASSERT_EQ(script_.qp().QueueSend(write), Status::kOk);
  EXPECT_FALSE(script_.endpoint().MaySendAtOnce(script_.qp()));
}

TEST_F(TailProbeTest, AnAnswerForTheOnlyPacketEndsTheCare) {
  PostWritesOfWhichTheProbeIsAnswered(1);
  PostWrites(3);
}

// IBA C9-139: timeout and retry_cnt work as without probes, to the nanosecond.
TEST_F(TailProbeTest, NoRetryIsTakenAndTheAckTimerRunsOn) {
  PostWrites(1);
  script_.Advance(kAckTimeout - kInstant);
  EXPECT_EQ(script_.counters().ack_timeouts, 0u);
  EXPECT_EQ(script_.counters().probes, 1u);
  script_.Advance(kInstant);
  EXPECT_EQ(script_.counters().ack_timeouts, 1u);
  script_.TakeSent();
  script_.Advance(kAckTimeout - kInstant);
  script_.ExpectNoCompletion();
  script_.Advance(kInstant);
  script_.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  script_.ExpectState(QpState::kError);
  script_.ExpectNoDeadline();
  script_.TakeSent();
}

TEST_F(TailProbeTest, TheSilenceFollowsTheMeasuredRoundTrip) {
  const auto request = PostAfterRoundTrip(Milliseconds(4));
  ExpectSilenceUntil(Milliseconds(4 + 4 * 2));  // RFC 6298: 4 ms, varying by half of it
  script_.ExpectSent(request.at(0));
}

TEST_F(TailProbeTest, AShortRoundTripIsNotTakenForTheSchedulersPause) {
  const auto request = PostAfterRoundTrip(Microseconds(2));
  ExpectSilenceUntil(RoundTripTime::kMinSilence);
  script_.ExpectSent(request.at(0));
}

// Karn's rule (RFC 6298, 3): the ACK may be for the first transmission or for the second.
TEST_F(TailProbeTest, AckOfARetransmittedPacketIsNoMeasurement) {
  const auto second = PostAfterRoundTrip(Milliseconds(4));
  script_.Advance(Milliseconds(8));
  script_.Inject(Nak(first_ + 1, NakCode::kPsnSequenceError));
  script_.ExpectSent(second.at(0));
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(2);
  script_.PostWrite(3, 128, 10);
  const auto third = script_.TakeSent();
  ExpectSilenceUntil(Milliseconds(4 + 4 * 2));  // as after the first
  script_.ExpectSent(third.at(0));
}

// Late responses to the first transmissions: nothing was lost, and only the probe is sent twice.
TEST_F(TailProbeTest, ASlowPeerIsNotSentTheFlightAgain) {
  PostWrites(8);
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  script_.Inject(Ack(first_ + 2));
  script_.ExpectNothingSent();
  script_.PostWrite(9, 0, 10);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.Inject(Ack(first_ + 8));
  script_.Inject(Ack(first_ + 8));  // the probe's
  for (uint64_t i = 1; i <= 9; ++i) script_.ExpectCompletion(i);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().retransmitted_packets, 1u);
}

// A whole flight is lost: each response lets twice as many packets follow.
TEST_F(TailProbeTest, TheRestFollowsInGrowingPieces) {
  PostWrites(8);
  script_.Advance(RoundTripTime::kInitialSilence);
  uint32_t acknowledged = 0;
  for (const uint32_t piece : {1, 2, 4, 1}) {
    for (uint32_t i = 0; i < piece; ++i) script_.ExpectSent(requests_[acknowledged + i]);
    script_.ExpectNothingSent();
    acknowledged += piece;
    script_.Inject(Ack(first_ + (acknowledged - 1)));
  }
  for (uint64_t i = 1; i <= 8; ++i) script_.ExpectCompletion(i);
  script_.ExpectNothingSent();
  script_.ExpectNoDeadline();
}

// Outstanding READs count against max_read_atomic again when sending continues after them.
TEST_F(TailProbeTest, ReadsKeepTheirCreditsBehindAProbe) {
  PostWrites(2);
  for (uint64_t i = 0; i < 5; ++i) script_.PostRead(3 + i, 8 * i, 8);
  const auto reads = script_.TakeSent();
  ASSERT_EQ(reads.size(), 4u);  // max_read_atomic
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  script_.Inject(Ack(first_ + 1));
  script_.ExpectNothingSent();
  script_.Inject(ReadResponse(Position::kOnly, reads[0].psn).With(Pattern(8)));
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
}

TEST_F(TailProbeTest, TheRestOfAReadIsAskedFor) {
  script_.PostRead(1, 0, 4 * 256);
  ASSERT_EQ(script_.TakeSent().size(), 1u);
  script_.Inject(ReadResponse(Position::kFirst, first_).With(Pattern(256)));
  ExpectSilenceUntil(RoundTripTime::kMinSilence);
  const auto sent = script_.TakeSent();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].psn, first_ + 1);
  EXPECT_EQ(sent[0].reth.dma_length, 3 * 256u);
}

TEST_F(TailProbeTest, NotDuringAnRnrWait) {
  PostWrites(2);
  script_.Inject(RnrNak(first_, 0));  // 655 ms
  script_.Advance(Milliseconds(600));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().probes, 0u);
  script_.Advance(Milliseconds(56));
  script_.TakeSent();
}

class NoAckTimeoutTest : public TailProbeTest {
 protected:
  NoAckTimeoutTest() : TailProbeTest({.timeout = 0, .probes = true}) {}

  void PostReads(uint64_t count) {
    for (uint64_t i = 1; i <= count; ++i) script_.PostRead(i, 8 * i, 8);
    requests_ = script_.TakeSent();
  }
  PacketSpec Response(uint32_t i) const {
    return ReadResponse(Position::kOnly, first_ + i).With(Pattern(8));
  }
  void ExpectAllSentAgain() {
    for (const PacketSpec& request : requests_) script_.ExpectSent(request);
  }
};

TEST_F(NoAckTimeoutTest, ProbesGoOn) {
  PostWrites(1);
  Duration silence = RoundTripTime::kInitialSilence;
  for (int i = 0; i < 10; ++i) {
    ExpectSilenceUntil(silence);
    script_.ExpectSent(requests_[0]);
  }
}

// A peer that has become slower is probed later the next time; otherwise it would never catch up.
TEST_F(NoAckTimeoutTest, AnAnswerAfterAProbeMakesTheNextOneLater) {
  PostWrites(1);
  script_.Advance(Milliseconds(60));
  script_.ExpectSent(requests_[0]);
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.PostWrite(2, 64, 10);
  const auto request = script_.TakeSent();
  ExpectSilenceUntil(Milliseconds(60 + 4 * 30));
  script_.ExpectSent(request.at(0));
}

// Probes back off to 50 ms, so that data moves again soon after the path is back.
TEST_F(NoAckTimeoutTest, ProbesBackOffUpToABound) {
  const auto request = PostAfterRoundTrip(Milliseconds(4));
  Duration silence = Milliseconds(12);
  for (int i = 0; i < 8; ++i) {
    ExpectSilenceUntil(silence);
    script_.ExpectSent(request.at(0));
    silence = std::min(silence * 2, Milliseconds(50));
  }
}

TEST_F(NoAckTimeoutTest, ReadResponseForTheOnlyPacketEndsTheCare) {
  PostReads(1);
  script_.Advance(RoundTripTime::kInitialSilence);
  ExpectAllSentAgain();
  script_.Inject(Response(0));
  script_.ExpectCompletion(1);
  PostWrites(3);
}

// A response before the one that implied the last loss answers a packet that was sent again.
TEST_F(NoAckTimeoutTest, ALossDuringRecoveryIsNoticed) {
  PostReads(4);
  for (const uint32_t implied_by : {2, 1}) {
    script_.Inject(Response(implied_by));
    ExpectAllSentAgain();
    script_.Inject(Response(3));  // implies the same loss
    script_.ExpectNothingSent();
  }
  EXPECT_EQ(script_.counters().implied_naks, 2u);
}

// The responder sends the rest of what it had queued before it answers the retransmission.
TEST_F(NoAckTimeoutTest, ResponsesBehindALossImplyNoOtherAfterAProbe) {
  PostReads(4);
  script_.Inject(Response(1));
  ExpectAllSentAgain();
  script_.Advance(RoundTripTime::kInitialSilence);
  script_.ExpectSent(requests_[0]);
  for (const uint32_t behind : {2, 3}) script_.Inject(Response(behind));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().implied_naks, 1u);
}

// rxe acknowledges all duplicates with one PSN, half a round trip after we went back. If such an
// ACK implied a second loss, each would make us send the flight again.
TEST_F(NoAckTimeoutTest, AcksOfDuplicatesShowNoSecondLoss) {
  script_.PostRead(1, 0, 8);
  script_.PostWrite(2, 8, 8);
  script_.PostWrite(3, 16, 8);
  requests_ = script_.TakeSent();
  script_.Inject(Ack(first_ + 2));
  for (const PacketSpec& request : requests_) script_.ExpectSent(request);
  for (int i = 0; i < 3; ++i) script_.Inject(Ack(first_ + 2));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().implied_naks, 1u);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
