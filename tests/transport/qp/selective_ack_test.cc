// Losses on a network: only what is missing is sent, or asked for, again.

#include "transport/wire/selective_ack.h"

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <vector>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr Duration kRoundTrip = Milliseconds(1);
constexpr uint32_t kRoom = 100;

PacketSpec Sack(Psn missing, std::initializer_list<uint32_t> distances, uint32_t room = kRoom) {
  PacketSpec spec = Ack(missing);
  spec.opcode.operation = Operation::kSelectiveAcknowledge;
  spec = spec.Of(Service::kUroce);
  std::array<uint8_t, SelectiveAck::kMaxBytes> bytes;
  SelectiveAck kept(bytes, room, 256);
  for (const uint32_t distance : distances) EXPECT_TRUE(kept.Add(distance));
  return spec.With(std::vector<uint8_t>(bytes.begin(), bytes.begin() + kept.length()));
}

class SelectiveAckTest : public testing::Test {
 protected:
  // A first WRITE measures the round trip.
  SelectiveAckTest() {
    PostWrites(1);
    script_.Inject(Ack(first_));
    script_.ExpectCompletion(1);
    sent_.clear();
  }
  // Post `count` WRITEs of one packet, or a READ of so many packets, and take what is sent. A round
  // trip passes, as before any response.
  void PostWrites(int count) {
    for (int i = 0; i < count; ++i) script_.PostWrite(++posted_, 0, 8);
    Take();
    script_.Advance(kRoundTrip);
  }
  void PostRead(uint32_t packets) {
    script_.PostRead(++posted_, 0, packets * 256);
    Take();
    script_.Advance(kRoundTrip);
  }
  void Take() {
    for (const PacketSpec& packet : script_.TakeSent()) sent_.push_back(packet);
  }
  Psn Number(uint32_t number) const { return first_ + 1 + number; }
  void LetOvertakenPacketsBeLost() { script_.Advance(Duration{kRoundTrip.ns / 4}); }
  void ExpectSentAgain(uint32_t number) {
    script_.ExpectSent(PacketSpec(sent_.at(number)).AckRequest());
  }
  // The peer's response to a READ.
  void Respond(Position position, uint32_t number, uint8_t salt) {
    script_.Inject(ReadResponse(position, Number(number)).With(Pattern(256, salt)));
  }

  Script script_{{.congestion = Congestion::kModel}};
  const Psn first_ = script_.first_psn();
  std::vector<PacketSpec> sent_;
  uint64_t posted_ = 0;
};

TEST_F(SelectiveAckTest, OnlyTheMissingPacketIsSentAgain) {
  PostWrites(5);
  EXPECT_EQ(script_.Inject(Sack(Number(1), {1, 2, 3})), DropReason::kNone);
  script_.ExpectCompletion(2);
  script_.ExpectNothingSent();
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(1);
  script_.ExpectNothingSent();
  script_.Inject(Ack(Number(4)));
  EXPECT_EQ(script_.TakeCompletions().size(), 4u);
  EXPECT_EQ(script_.counters().retransmitted_packets, 1u);
  script_.ExpectNoDeadline();
}

// The last of four packets came first. While the others fill the gap, the peer tells of it each
// time, and the response to the READ is late.
TEST(SelectiveAckWithoutCongestionControlTest, GapThatIsBeingFilledCostsOneRetry) {
  Script script({.retry_count = 1});
  const Psn first = script.first_psn();
  script.PostRead(1, 0, 8);
  for (int i = 2; i <= 4; ++i) script.PostWrite(i, 0, 8);
  EXPECT_EQ(script.TakeSent().size(), 4u);
  script.Advance(kRoundTrip);
  script.Inject(Sack(first, {3}));
  EXPECT_FALSE(script.TakeSent().empty());
  script.Advance(Duration{kRoundTrip.ns / 10});
  script.Inject(Sack(first + 1, {2}));
  script.Inject(Sack(first + 2, {1}));
  script.ExpectNothingSent();
  script.Inject(ReadResponse(Position::kOnly, first).With(Pattern(8)));
  script.Inject(Ack(first + 3));
  for (int i = 1; i <= 4; ++i) script.ExpectCompletion(i);
  EXPECT_LE(script.counters().retransmitted_packets, 4u);
}

TEST_F(SelectiveAckTest, LatePacketIsNotSentAgain) {
  PostWrites(3);
  script_.Inject(Sack(Number(0), {1, 2}));
  script_.Advance(Duration{kRoundTrip.ns / 8});
  script_.Inject(Ack(Number(2)));
  EXPECT_EQ(script_.TakeCompletions().size(), 3u);
  script_.Advance(kRoundTrip);
  script_.ExpectNothingSent();
}

TEST_F(SelectiveAckTest, SeveralLossesAreRepairedInOneRoundTrip) {
  PostWrites(8);
  script_.Inject(Sack(Number(0), {1, 3, 4, 7}));
  LetOvertakenPacketsBeLost();
  for (const uint32_t number : {0, 2, 5, 6}) ExpectSentAgain(number);
  script_.ExpectNothingSent();
  // The same once more says nothing new.
  script_.Inject(Sack(Number(0), {1, 3, 4, 7}));
  LetOvertakenPacketsBeLost();
  script_.ExpectNothingSent();
  script_.Inject(Ack(Number(7)));
  EXPECT_EQ(script_.TakeCompletions().size(), 8u);
}

TEST_F(SelectiveAckTest, SendingGoesOnAsFarAsThePeerKeeps) {
  PostWrites(3);
  script_.Inject(Sack(Number(0), {1}, /*room=*/5));
  PostWrites(4);
  EXPECT_EQ(sent_.size(), 5u);
  EXPECT_EQ(sent_.back().psn, Number(4));
  ExpectSentAgain(0);
  script_.Inject(Ack(Number(4)));
  Take();
  EXPECT_EQ(sent_.back().psn, Number(6));
  script_.Inject(Ack(Number(6)));
  EXPECT_EQ(script_.TakeCompletions().size(), 7u);
}

TEST_F(SelectiveAckTest, PeerThatGoesBackGetsAllAgain) {
  PostWrites(4);
  script_.Inject(Nak(Number(1), NakCode::kPsnSequenceError));
  script_.ExpectCompletion(2);
  for (const uint32_t number : {1, 2, 3}) ExpectSentAgain(number);
  script_.ExpectNothingSent();
  script_.Inject(Ack(Number(3)));
  EXPECT_EQ(script_.TakeCompletions().size(), 3u);
}

TEST_F(SelectiveAckTest, NakOfAPeerThatTellsArrivalsCostsOnePacket) {
  PostWrites(4);
  script_.Inject(Sack(Number(0), {1}));
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(0);
  script_.Advance(kRoundTrip);
  script_.Inject(Nak(Number(2), NakCode::kPsnSequenceError));
  EXPECT_EQ(script_.TakeCompletions().size(), 2u);
  ExpectSentAgain(2);
  script_.ExpectNothingSent();
  script_.Inject(Ack(Number(3)));
  EXPECT_EQ(script_.TakeCompletions().size(), 2u);
}

TEST_F(SelectiveAckTest, MissingResponsesOfAReadAreAskedForAgain) {
  PostRead(4);
  Respond(Position::kFirst, 0, 0);
  Respond(Position::kLast, 3, 3);
  script_.ExpectNoCompletion();
  LetOvertakenPacketsBeLost();
  script_.ExpectSent(Read(Number(1), Script::kPeerAddress + 256, Script::kPeerRkey, 2 * 256));
  script_.ExpectNothingSent();
  Respond(Position::kFirst, 1, 1);
  Respond(Position::kLast, 2, 2);
  script_.ExpectCompletion(2);
  for (uint8_t i = 0; i < 4; ++i) EXPECT_EQ(script_.Bytes(i * 256, 256), Pattern(256, i));
  script_.ExpectNoDeadline();
}

TEST_F(SelectiveAckTest, ResponsesInAnyOrderCompleteAReadWithoutAnotherRequest) {
  PostRead(3);
  Respond(Position::kLast, 2, 2);
  Respond(Position::kMiddle, 1, 1);
  Respond(Position::kFirst, 0, 0);
  script_.ExpectCompletion(2);
  for (uint8_t i = 0; i < 3; ++i) EXPECT_EQ(script_.Bytes(i * 256, 256), Pattern(256, i));
  script_.ExpectNothingSent();
  script_.ExpectNoDeadline();
}

TEST_F(SelectiveAckTest, RequestsBehindAReadCompleteAfterIt) {
  PostRead(2);
  PostWrites(2);
  Respond(Position::kLast, 1, 1);
  script_.Inject(Ack(Number(3)));
  script_.ExpectNoCompletion();
  LetOvertakenPacketsBeLost();
  script_.ExpectSent(Read(Number(0), Script::kPeerAddress, Script::kPeerRkey, 256));
  Respond(Position::kOnly, 0, 0);
  for (const uint64_t wr_id : {2, 3, 4}) script_.ExpectCompletion(wr_id);
  script_.ExpectNothingSent();
}

TEST_F(SelectiveAckTest, ReadThatThePeerKeepsIsNotAskedForAgain) {
  PostWrites(1);
  PostRead(2);
  PostWrites(1);
  script_.Inject(Sack(Number(0), {1, 3}));
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(0);
  script_.Advance(Duration{kRoundTrip.ns / 2});
  script_.ExpectNothingSent();
  script_.Inject(ReadResponse(Position::kFirst, Number(1)).With(Pattern(256, 0)));
  script_.Inject(ReadResponse(Position::kLast, Number(2)).With(Pattern(256, 1)));
  script_.Inject(Ack(Number(3)));
  for (const uint64_t wr_id : {2, 3, 4}) script_.ExpectCompletion(wr_id);
  script_.ExpectNothingSent();
}

TEST_F(SelectiveAckTest, LostReadRequestIsSentAgainWhole) {
  PostRead(2);
  PostWrites(1);
  script_.Inject(Sack(Number(0), {2}));
  LetOvertakenPacketsBeLost();
  script_.ExpectSent(Read(Number(0), Script::kPeerAddress, Script::kPeerRkey, 2 * 256));
  script_.ExpectNothingSent();
  Respond(Position::kFirst, 0, 0);
  Respond(Position::kLast, 1, 1);
  script_.Inject(Ack(Number(2)));
  for (const uint64_t wr_id : {2, 3}) script_.ExpectCompletion(wr_id);
}

// IBA C9-148: the peer counts requests, so one that it may not have executed is not cut.
TEST(SilentPeerTest, ReadOfWhichNothingIsKnownIsAskedForWhole) {
  Script script({.probes = true, .congestion = Congestion::kModel});
  script.PostRead(1, 0, 4 * 256);
  script.TakeSent();
  script.Advance(Milliseconds(51));
  const PacketSpec whole =
      Read(script.first_psn(), Script::kPeerAddress, Script::kPeerRkey, 4 * 256);
  script.ExpectSent(whole);
  script.ExpectNothingSent();
  script.Inject(ReadResponse(Position::kFirst, script.first_psn()).With(Pattern(256)));
  script.TakeSent();
  // Expect: executed as it is now known to be, only the rest.
  script.Advance(Milliseconds(200));
  const PacketSpec rest = script.TakeSent().at(0);
  EXPECT_EQ(rest.psn, script.first_psn() + 1);
  EXPECT_LT(rest.reth.dma_length, 4u * 256);
  for (uint32_t i = 1; i < 4; ++i) {
    script.Inject(ReadResponse(i == 3 ? Position::kLast : Position::kMiddle, script.first_psn() + i)
                      .With(Pattern(256)));
  }
  script.ExpectCompletion(1);
  script.TakeSent();
}

TEST_F(SelectiveAckTest, ResultsOfAtomicsMayComeInAnyOrder) {
  script_.PostFetchAdd(++posted_, 0, 1);
  script_.PostFetchAdd(++posted_, 8, 1);
  Take();
  script_.Advance(kRoundTrip);
  script_.Inject(AtomicAck(Number(1), 22));
  script_.ExpectNoCompletion();
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(0);
  script_.Inject(AtomicAck(Number(0), 11));
  for (const uint64_t wr_id : {2, 3}) script_.ExpectCompletion(wr_id);
  EXPECT_EQ(script_.Word(0), 11u);
  EXPECT_EQ(script_.Word(8), 22u);
}

TEST_F(SelectiveAckTest, WrongEarlyResponseIsDropped) {
  PostRead(3);
  script_.ExpectDropped(DropReason::kMalformedResponse,
                        ReadResponse(Position::kMiddle, Number(1)).With(Pattern(255)));
  script_.ExpectDropped(DropReason::kMalformedResponse, AtomicAck(Number(2), 1));
  Respond(Position::kFirst, 0, 0);
  Respond(Position::kMiddle, 1, 1);
  Respond(Position::kLast, 2, 2);
  script_.ExpectCompletion(2);
}

TEST_F(SelectiveAckTest, MalformedSelectiveAckIsDropped) {
  PostWrites(2);
  PacketSpec too_short = Sack(Number(0), {1});
  too_short.payload.clear();
  script_.ExpectDropped(DropReason::kMalformedResponse, too_short);
  PacketSpec too_long = Sack(Number(0), {1});
  too_long.payload.resize(SelectiveAck::kMaxBytes + 4);
  script_.ExpectDropped(DropReason::kMalformedResponse, too_long);
  // Packets that were never sent.
  script_.Inject(Sack(Number(0), {1, 2, 40}));
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(0);
  script_.ExpectNothingSent();
  script_.Inject(Ack(Number(1)));
  script_.TakeCompletions();
}

TEST_F(SelectiveAckTest, AfterAnRnrNakAllIsSentAgain) {
  PostWrites(4);
  script_.Inject(Sack(Number(0), {1, 3}));
  script_.Inject(RnrNak(Number(0), 1));
  script_.ExpectNothingSent();
  script_.Advance(Microseconds(10));
  script_.ExpectSent(sent_.at(0));
  script_.ExpectSent(sent_.at(1));
  Take();
  script_.Inject(Ack(Number(3)));
  EXPECT_EQ(script_.TakeCompletions().size(), 4u);
}

// The peer has all requests, and only its ACK was lost.
TEST_F(SelectiveAckTest, LostAckOfPacketsThatHaveArrivedIsAskedForAgain) {
  PostRead(1);
  PostWrites(3);
  script_.Inject(Sack(Number(0), {1, 2, 3}));
  LetOvertakenPacketsBeLost();
  Take();
  script_.Advance(kRoundTrip);
  Respond(Position::kOnly, 0, 1);
  script_.ExpectCompletion(2);
  script_.ExpectNothingSent();
  script_.Advance(Milliseconds(68));
  Take();
  EXPECT_EQ(sent_.back().psn, Number(1));
  script_.Inject(Ack(Number(3)));
  EXPECT_EQ(script_.TakeCompletions().size(), 3u);
}

// A peer that has dropped what it had kept says so by a NAK.
TEST_F(SelectiveAckTest, PacketThatThePeerHasDroppedIsSentAgain) {
  PostWrites(3);
  script_.Inject(Sack(Number(0), {1, 2}));
  LetOvertakenPacketsBeLost();
  ExpectSentAgain(0);
  script_.Advance(kRoundTrip);
  script_.Inject(Nak(Number(1), NakCode::kPsnSequenceError));
  script_.ExpectCompletion(2);
  ExpectSentAgain(1);
  script_.Inject(Ack(Number(2)));
  EXPECT_EQ(script_.TakeCompletions().size(), 2u);
}

// Packets that were sent before going back, and not since then, are not repaired: their turn comes.
TEST_F(SelectiveAckTest, RepairEndsWhereSendingWentBackTo) {
  PostWrites(1);
  script_.PostWrite(++posted_, 0, 2 * 256);
  PostWrites(1);
  script_.Inject(RnrNak(Number(0), 1));
  script_.Advance(Microseconds(10));
  for (const uint32_t number : {0, 1}) script_.ExpectSent(sent_.at(number));
  script_.Inject(Nak(Number(0), NakCode::kPsnSequenceError));
  script_.Advance(kRoundTrip);
  ExpectSentAgain(0);
  script_.Advance(kRoundTrip);
  script_.Inject(Ack(Number(0)));
  script_.ExpectCompletion(2);
  script_.Advance(kRoundTrip);
  ExpectSentAgain(1);
  for (const uint32_t number : {2, 3}) {
    script_.ExpectSent(sent_.at(number));
    script_.Advance(kRoundTrip);
  }
  script_.Inject(Ack(Number(3)));
  EXPECT_EQ(script_.TakeCompletions().size(), 2u);
}

// The responder's side: packets arrive before an earlier one.
class ArrivalTest : public testing::Test {
 protected:
  ArrivalTest() {
    WriteAt(0);
    script_.ExpectSent(Ack(first_));
  }
  // Request `number` of one packet, which asks for no ACK.
  void WriteAt(uint32_t number) {
    EXPECT_EQ(script_.Inject(Write(Position::kOnly, first_ + number, Script::Address(number),
                                   script_.rkey(), 1)
                                 .With(std::vector<uint8_t>{static_cast<uint8_t>('a' + number)})
                                 .AckRequest(number == 0)),
              DropReason::kNone);
  }
  void FindThePeer(PeerFeatures features = kOwnFeatures) {
    WriteAt(2);
    script_.ExpectSent(Nak(first_ + 1, NakCode::kPsnSequenceError));
    script_.AnswerPeerQuery(features);
    WriteAt(1);
    script_.TakeSent();
  }

  Script script_{{.reorder_packets = 64, .features = kOwnFeatures}};
  const Psn first_ = script_.peers_first_psn();
};

TEST_F(ArrivalTest, PeerIsToldWhatHasArrived) {
  FindThePeer();
  WriteAt(4);
  script_.ExpectSent(Sack(first_ + 3, {1}, 33));
  WriteAt(7);
  script_.ExpectSent(Sack(first_ + 3, {1, 4}, 35));
  script_.ExpectNothingSent();
  // The gap is filled in part, and then wholly.
  WriteAt(3);
  script_.ExpectSent(Sack(first_ + 5, {2}, 34));
  WriteAt(5);
  script_.ExpectSent(Sack(first_ + 6, {1}, 33));
  WriteAt(6);
  script_.ExpectSent(Ack(first_ + 7));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.Bytes(0, 8), std::vector<uint8_t>({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}));
  EXPECT_EQ(script_.counters().psn_naks_sent, 1u);
}

TEST_F(ArrivalTest, OtherDevicesGetNaks) {
  FindThePeer(0);
  WriteAt(4);
  script_.ExpectSent(Nak(first_ + 3, NakCode::kPsnSequenceError));
  WriteAt(5);
  script_.ExpectNothingSent();
  WriteAt(3);
  script_.TakeSent();
}

TEST_F(ArrivalTest, DroppedPacketIsReportedByANak) {
  FindThePeer();
  for (uint32_t number = 4; number < 4 + 33; ++number) {
    script_.Inject(
        Write(Position::kOnly, first_ + number, Script::Address(number), script_.rkey(), 1)
            .With(std::vector<uint8_t>{'x'})
            .AckRequest(false));
  }
  script_.TakeSent();
  WriteAt(3);
  // 32 were kept: half of the pool. The peer does not know of the one that was dropped.
  script_.ExpectSent(Nak(first_ + 36, NakCode::kPsnSequenceError));
  script_.ExpectNothingSent();
}

// The process of the peer stands still, and uroced says so.
TEST(StoppedPeerTest, LastRetryWaitsForAProcessThatStandsStill) {
  constexpr Duration kTimeout = Milliseconds(68);
  Script script({.retry_count = 2, .features = kOwnFeatures});
  script.PostWrite(1, 0, 8);
  script.Advance(kTimeout);
  script.AnswerPeerQuery(kOwnFeatures);
  for (int i = 0; i < 20; ++i) {
    script.Advance(kTimeout);
    script.AnswerPeerQuery(kOwnFeatures, PeerQuery::Process::kLives);
  }
  script.ExpectNoCompletion();
  script.TakeSent();
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
}

TEST(StoppedPeerTest, ProcessThatIsGoneIsNotWaitedFor) {
  constexpr Duration kTimeout = Milliseconds(68);
  Script script({.retry_count = 2, .features = kOwnFeatures});
  script.PostWrite(1, 0, 8);
  script.Advance(kTimeout);
  script.AnswerPeerQuery(kOwnFeatures);
  script.Advance(kTimeout);
  script.AnswerPeerQuery(kOwnFeatures, PeerQuery::Process::kGone);
  script.Advance(kTimeout);
  script.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  script.TakeSent();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
