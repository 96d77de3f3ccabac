// Requests that arrive before an earlier one are kept, and executed when it has come.

#include <gtest/gtest.h>

#include <vector>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint64_t kAt = 4'096;  // offset that the requests access

class EarlyRequestTest : public testing::Test {
 protected:
  explicit EarlyRequestTest(uint32_t reorder_packets = 64)
      : script_({.reorder_packets = reorder_packets}) {
    // The first request establishes the communication.
    WriteAt(0);
    script_.ExpectSent(Ack(first_));
  }

  // Request `number` of one packet, which writes its number.
  DropReason WriteAt(uint32_t number) {
    return script_.Inject(
        Write(Position::kOnly, first_ + number, Script::Address(kAt + number), script_.rkey(), 1)
            .With(std::vector<uint8_t>{static_cast<uint8_t>('a' + number)}));
  }
  void ExpectNak(uint32_t number) {
    script_.ExpectSent(Nak(first_ + number, NakCode::kPsnSequenceError));
  }
  std::string Written(size_t count) {
    return {reinterpret_cast<const char*>(script_.memory(kAt)), count};
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
};

TEST_F(EarlyRequestTest, OneNakAndThenOneAckForAllThatWereKept) {
  EXPECT_EQ(WriteAt(2), DropReason::kNone);
  ExpectNak(1);
  EXPECT_EQ(WriteAt(4), DropReason::kNone);
  EXPECT_EQ(WriteAt(3), DropReason::kNone);
  script_.ExpectNothingSent();
  EXPECT_EQ(Written(3), std::string("a\0\0", 3));
  EXPECT_EQ(script_.counters().early_packets, 3u);

  EXPECT_EQ(WriteAt(1), DropReason::kNone);
  EXPECT_EQ(Written(5), "abcde");
  script_.ExpectSent(Ack(first_ + 4).Msn(5));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().psn_naks_sent, 1u);
  // Expect: what a peer that goes back sends again is answered as duplicates.
  EXPECT_EQ(WriteAt(2), DropReason::kDuplicateRequest);
  script_.ExpectSent(Ack(first_ + 4));
}

TEST_F(EarlyRequestTest, SecondGapIsReportedWhenTheFirstIsFilled) {
  WriteAt(2);
  ExpectNak(1);
  WriteAt(4);
  WriteAt(1);
  EXPECT_EQ(Written(4), std::string("abc\0", 4));
  ExpectNak(3);
  WriteAt(3);
  EXPECT_EQ(Written(5), "abcde");
  script_.ExpectSent(Ack(first_ + 4));
  script_.ExpectNothingSent();
}

TEST_F(EarlyRequestTest, PacketIsKeptOnce) {
  EXPECT_EQ(WriteAt(2), DropReason::kNone);
  ExpectNak(1);
  EXPECT_EQ(WriteAt(2), DropReason::kSequenceGap);
  WriteAt(1);
  script_.ExpectSent(Ack(first_ + 2));
  script_.ExpectNothingSent();
}

TEST_F(EarlyRequestTest, PathThatReordersGetsTimeBeforeTheNak) {
  // A packet that comes 200 us late, and again because a NAK asked for it.
  WriteAt(2);
  ExpectNak(1);
  script_.Advance(Microseconds(200));
  WriteAt(1);
  script_.ExpectSent(Ack(first_ + 2));
  WriteAt(1);
  script_.ExpectSent(Ack(first_ + 2));

  // Expect: nothing is said about one that is as late.
  WriteAt(4);
  script_.Advance(Microseconds(200));
  script_.ExpectNothingSent();
  WriteAt(3);
  script_.ExpectSent(Ack(first_ + 4));
  script_.ExpectNoDeadline();
  EXPECT_EQ(script_.counters().psn_naks_sent, 1u);

  // Expect: a loss is reported a little later.
  WriteAt(6);
  script_.Advance(Microseconds(249));
  script_.ExpectNothingSent();
  script_.Advance(Microseconds(1));
  ExpectNak(5);
  script_.ExpectNoDeadline();
  // Expect: a second gap, which has been there for as long, waits no longer.
  WriteAt(8);
  script_.Advance(Microseconds(300));
  WriteAt(5);
  ExpectNak(7);
}

TEST_F(EarlyRequestTest, EveryOperationIsExecutedInItsTurn) {
  script_.PostReceive(7, 8'192, 256);
  script_.SetWord(kAt + 64, 40);
  script_.Inject(Read(first_ + 4, Script::Address(kAt + 64), script_.rkey(), 8));
  ExpectNak(1);
  script_.Inject(FetchAdd(first_ + 3, Script::Address(kAt + 64), script_.rkey(), 2));
  script_.Inject(Send(Position::kOnly, first_ + 2).With("hello"));
  script_.ExpectNothingSent();
  script_.ExpectNoCompletion();

  WriteAt(1);
  script_.ExpectCompletion(7);
  script_.ExpectSent(AtomicAck(first_ + 3, 40));
  const std::vector<uint8_t> sum = script_.Bytes(kAt + 64, 8);
  script_.ExpectSent(ReadResponse(Position::kOnly, first_ + 4).With(sum));
  EXPECT_EQ(script_.Word(kAt + 64), 42u);
}

TEST_F(EarlyRequestTest, PacketsOfOneMessage) {
  script_.PostReceive(7, 8'192, 1'024);
  const std::string full(256, 'x');
  script_.Inject(Send(Position::kLast, first_ + 3).With("end"));
  ExpectNak(1);
  script_.Inject(Send(Position::kFirst, first_ + 1).With(full));
  ExpectNak(2);
  script_.Inject(Send(Position::kMiddle, first_ + 2).With(full));
  EXPECT_EQ(script_.ExpectCompletion(7).byte_length, 515u);
  script_.ExpectSent(Ack(first_ + 3));
}

TEST_F(EarlyRequestTest, RefusedRequestTakesThoseBehindItAlong) {
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, first_ + 2).With("hello")), DropReason::kNone);
  ExpectNak(1);
  EXPECT_EQ(WriteAt(3), DropReason::kNone);
  // Expect: an RNR NAK, as no receive is posted; the peer sends all from there on again.
  WriteAt(1);
  script_.ExpectSent(RnrNak(first_ + 2, 12));
  EXPECT_EQ(WriteAt(4), DropReason::kSequenceGap);
  script_.ExpectNothingSent();
  EXPECT_EQ(Written(4), std::string("ab\0\0", 4));
  script_.PostReceive(7, 8'192, 256);
  script_.Inject(Send(Position::kOnly, first_ + 2).With("hello"));
  script_.ExpectCompletion(7);
  script_.ExpectSent(Ack(first_ + 2));
}

TEST_F(EarlyRequestTest, ErrorForgetsWhatWasKept) {
  WriteAt(2);
  ExpectNak(1);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectNoDeadline();
  EXPECT_EQ(WriteAt(1), DropReason::kQpNotReady);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.Connect();
  WriteAt(0);
  script_.TakeSent();
  WriteAt(1);
  script_.ExpectSent(Ack(first_ + 1));
  EXPECT_EQ(Written(3), std::string("ab\0", 3));
}

class SmallReorderPoolTest : public EarlyRequestTest {
 protected:
  SmallReorderPoolTest() : EarlyRequestTest(2) {}
};

TEST_F(SmallReorderPoolTest, PacketsWithoutRoomAreMissingToo) {
  EXPECT_EQ(WriteAt(2), DropReason::kNone);
  ExpectNak(1);
  EXPECT_EQ(WriteAt(3), DropReason::kSequenceGap);
  EXPECT_EQ(script_.counters().early_packets, 1u);
  WriteAt(1);
  script_.ExpectSent(Ack(first_ + 2));
  // Expect: the peer was told of the gap before, and sends all behind it again.
  script_.ExpectNothingSent();
  WriteAt(3);
  script_.ExpectSent(Ack(first_ + 3));
}

TEST_F(SmallReorderPoolTest, GapThatWasNotReportedIsReportedForThePacketsWithoutRoom) {
  WriteAt(2);
  ExpectNak(1);
  script_.Advance(Microseconds(200));
  WriteAt(1);
  WriteAt(1);
  script_.TakeSent();
  EXPECT_EQ(WriteAt(4), DropReason::kNone);
  EXPECT_EQ(WriteAt(5), DropReason::kSequenceGap);
  WriteAt(3);
  // Expect: 5 is missing, and the peer does not know it.
  ExpectNak(5);
}

// The first packet of a connection raises an event when it is executed.
TEST(EarlyRequestBeforeRtsTest, FirstPacketIsNotKept) {
  Script script({.reorder_packets = 64, .state = QpState::kReadyToReceive});
  const Psn first = script.peers_first_psn();
  const auto write = [&](Psn psn) {
    return script.Inject(
        Write(Position::kOnly, psn, Script::Address(kAt), script.rkey(), 1).With("x"));
  };
  EXPECT_EQ(write(first + 1), DropReason::kSequenceGap);
  script.ExpectSent(Nak(first, NakCode::kPsnSequenceError));
  script.ExpectNoEvent();
  write(first);
  script.ExpectEvent(EventType::kCommunicationEstablished);
  script.ExpectSent(Ack(first));
  EXPECT_EQ(write(first + 2), DropReason::kNone);
  script.ExpectSent(Nak(first + 1, NakCode::kPsnSequenceError));
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
