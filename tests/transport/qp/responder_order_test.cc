// Requests that come in order, repeated, too early and too late, for every operation
// (IBA 9.7.4.1.2).

#include <gtest/gtest.h>

#include <string>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint64_t kAt = 4'096;  // offset that the requests access

class ResponderOrderTest : public testing::TestWithParam<Operation> {
 protected:
  ResponderOrderTest() : ResponderOrderTest(Script::Options()) {}
  explicit ResponderOrderTest(const Script::Options& options) : script_(options) {
    for (uint64_t i = 0; i < 8; ++i) script_.PostReceive(100 + i, 8'192 + i * 256, 256);
    script_.SetWord(kAt, 40);
  }

  // A request of one packet.
  PacketSpec Request(Psn psn) const {
    switch (GetParam()) {
      case Operation::kWrite:
        return Write(Position::kOnly, psn, Script::Address(kAt + 64), script_.rkey(), 5)
            .With("hello");
      case Operation::kReadRequest:
        return Read(psn, Script::Address(kAt), script_.rkey(), 8);
      case Operation::kFetchAndAdd:
        return FetchAdd(psn, Script::Address(kAt), script_.rkey(), 2);
      case Operation::kCompareAndSwap:
        return CompareSwap(psn, Script::Address(kAt), script_.rkey(), 40, 42);
      case Operation::kFlush:
        return Flush(psn, Script::Address(kAt), script_.rkey(), 8);
      case Operation::kAtomicWrite:
        return AtomicWrite(psn, Script::Address(kAt), script_.rkey(), 42);
      default:
        return Send(Position::kOnly, psn).With("hello");
    }
  }

  // The response to the first execution.
  PacketSpec Response(Psn psn) const {
    switch (GetParam()) {
      case Operation::kReadRequest:
        return ReadResponse(Position::kOnly, psn).With(script_.Bytes(kAt, 8));
      case Operation::kFetchAndAdd:
      case Operation::kCompareAndSwap:
        return AtomicAck(psn, 40);
      case Operation::kFlush:
      case Operation::kAtomicWrite:
        return ReadResponse(Position::kOnly, psn);
      default:
        return Ack(psn);
    }
  }

  void ExpectExecutedOnce() {
    if (GetParam() == Operation::kSend) script_.ExpectCompletion(100);
    if (GetParam() == Operation::kFetchAndAdd || GetParam() == Operation::kCompareAndSwap ||
        GetParam() == Operation::kAtomicWrite) {
      EXPECT_EQ(script_.Word(kAt), 42u);
    }
    script_.ExpectNoCompletion();
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
};

TEST_P(ResponderOrderTest, InOrder) {
  const PacketSpec response = Response(first_).Msn(1);
  // Expect: executed, and answered with MSN 1.
  EXPECT_EQ(script_.Inject(Request(first_)), DropReason::kNone);
  script_.ExpectSent(response);
  script_.ExpectNothingSent();
  ExpectExecutedOnce();
}

// IBA C9-105.
TEST_P(ResponderOrderTest, Duplicate) {
  const PacketSpec response = Response(first_);
  script_.Inject(Request(first_));
  script_.ExpectSent(response);
  ExpectExecutedOnce();

  // Expect: the same answer, nothing executed again, as often as it comes.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(script_.Inject(Request(first_)), DropReason::kDuplicateRequest);
    script_.ExpectSent(response);
    script_.ExpectNothingSent();
    script_.ExpectNoCompletion();
  }
  EXPECT_EQ(script_.counters().duplicate_requests, 3u);
  if (GetParam() == Operation::kFetchAndAdd) {
    EXPECT_EQ(script_.Word(kAt), 42u);
  }
}

TEST_P(ResponderOrderTest, FarPast) {
  script_.Inject(Request(first_));
  script_.TakeSent();
  ExpectExecutedOnce();
  // Expect: nothing is executed, and the queue pair stays in RTS. An atomic that the responder does
  // not remember gets no response.
  script_.Inject(Request(first_ - (1 << 22)));
  script_.TakeSent();
  script_.ExpectState(QpState::kReadyToSend);
  script_.ExpectNoCompletion();
}

TEST_P(ResponderOrderTest, Gap) {
  // Expect: one NAK for the expected PSN, however many requests come too early (IBA 9.7.5.2).
  EXPECT_EQ(script_.Inject(Request(first_ + 1)), DropReason::kSequenceGap);
  script_.ExpectSent(Nak(first_, NakCode::kPsnSequenceError).Msn(0));
  EXPECT_EQ(script_.Inject(Request(first_ + 2)), DropReason::kSequenceGap);
  EXPECT_EQ(script_.Inject(Request(first_ + 1)), DropReason::kSequenceGap);
  script_.ExpectNothingSent();
  script_.ExpectNoCompletion();
  EXPECT_EQ(script_.counters().psn_naks_sent, 1u);

  // Expect: the missing request is executed when it comes, and the next gap gets its own NAK.
  const PacketSpec response = Response(first_);
  script_.Inject(Request(first_));
  script_.ExpectSent(response);
  ExpectExecutedOnce();
  script_.Inject(Request(first_ + 2));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kPsnSequenceError).Msn(1));
}

TEST_P(ResponderOrderTest, FarFuture) {
  // Expect: half of all PSNs ahead is still a gap; one more is the past.
  EXPECT_EQ(script_.Inject(Request(first_ + 0x7f'ffff)), DropReason::kSequenceGap);
  script_.ExpectSent(Nak(first_, NakCode::kPsnSequenceError));
  EXPECT_NE(script_.Inject(Request(first_ + 0x80'0000)), DropReason::kSequenceGap);
  script_.TakeSent();
  script_.ExpectNoCompletion();
}

TEST_P(ResponderOrderTest, DuplicateDuringAGap) {
  const PacketSpec response = Response(first_);
  script_.Inject(Request(first_));
  script_.ExpectSent(response);
  ExpectExecutedOnce();
  script_.Inject(Request(first_ + 2));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kPsnSequenceError));
  // Expect: answered like any duplicate; the gap stays, and its NAK is not repeated.
  script_.Inject(Request(first_));
  script_.ExpectSent(response);
  script_.Inject(Request(first_ + 2));
  script_.ExpectNothingSent();
}

std::string NameOf(const testing::TestParamInfo<Operation>& info) {
  static constexpr const char* kNames[] = {
      "Send",        "Write",    "Read",  "ReadResponse", "Acknowledge", "AtomicAcknowledge",
      "CompareSwap", "FetchAdd", "Flush", "AtomicWrite"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(EveryOperation, ResponderOrderTest,
                         testing::Values(Operation::kSend, Operation::kWrite,
                                         Operation::kReadRequest, Operation::kCompareAndSwap,
                                         Operation::kFetchAndAdd, Operation::kFlush,
                                         Operation::kAtomicWrite),
                         NameOf);

// The same with PSNs that wrap around to 0.
class ResponderWrapTest : public ResponderOrderTest {
 protected:
  ResponderWrapTest() : ResponderOrderTest({.peers_first_psn = Psn(0xff'ffff)}) {}
};

TEST_P(ResponderWrapTest, PsnsGoOnAtZero) {
  PacketSpec response = Response(Psn(0xff'ffff)).Msn(1);
  script_.Inject(Request(Psn(0xff'ffff)));
  script_.ExpectSent(response);
  script_.Inject(Request(Psn(1)));
  script_.ExpectSent(Nak(Psn(0), NakCode::kPsnSequenceError));
  EXPECT_EQ(script_.Inject(Request(Psn(0))), DropReason::kNone);
  EXPECT_EQ(script_.TakeSent().at(0).psn, Psn(0));
  // Expect: the request before the wrap is a duplicate.
  EXPECT_EQ(script_.Inject(Request(Psn(0xff'ffff))), DropReason::kDuplicateRequest);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  if (GetParam() == Operation::kSend) {
    script_.ExpectCompletion(100);
    script_.ExpectCompletion(101);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryOperation, ResponderWrapTest,
                         testing::Values(Operation::kSend, Operation::kWrite,
                                         Operation::kReadRequest, Operation::kCompareAndSwap,
                                         Operation::kFetchAndAdd, Operation::kFlush,
                                         Operation::kAtomicWrite),
                         NameOf);

// IBA 9.7.5.1.2: a request that does not ask for an ACK gets none; the next ACK covers it.
TEST(ResponderAckTest, AcksAreCoalesced) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, 256);
  script.PostReceive(2, 256, 256);
  script.Inject(Send(Position::kOnly, first).With("a").AckRequest(false));
  script.ExpectNothingSent();
  script.ExpectCompletion(1);
  script.Inject(Send(Position::kOnly, first + 1).With("b"));
  script.ExpectSent(Ack(first + 1).Msn(2));
  script.ExpectCompletion(2);
}

// IBA C9-148.
TEST(ResponderAckTest, MsnCountsMessagesNotPackets) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, 1'024);
  script.Inject(Send(Position::kFirst, first).With(Pattern(256)).AckRequest());
  script.ExpectSent(Ack(first).Msn(0));
  script.Inject(Send(Position::kMiddle, first + 1).With(Pattern(256)).AckRequest());
  script.ExpectSent(Ack(first + 1).Msn(0));
  script.Inject(Send(Position::kLast, first + 2).With(Pattern(1)));
  script.ExpectSent(Ack(first + 2).Msn(1));
  EXPECT_EQ(script.ExpectCompletion(1).byte_length, 513u);
}

// The missing request came before its NAK could be sent. The NAK then names the request dropped
// after the gap: otherwise the peer would notice that loss only by its timer.
TEST(ResponderAckTest, NakOfAGapClosedInTimeNamesTheRequestDroppedBehind) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.HoldTransmit();
  script.ExpectDropped(DropReason::kSequenceGap, Write(Position::kOnly, first + 1));
  script.Inject(Write(Position::kOnly, first).AckRequest(false));
  script.ReleaseTransmit();
  script.ExpectSent(Nak(first + 1, NakCode::kPsnSequenceError).Msn(1));
  script.ExpectNothingSent();
  // That NAK is sent once.
  script.ExpectDropped(DropReason::kSequenceGap, Write(Position::kOnly, first + 2));
  script.ExpectNothingSent();
}

// The NAK names the first dropped request that has not come again before it could be sent.
TEST(ResponderAckTest, NakOfAPartlyClosedGapNamesTheFirstMissingRequest) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.HoldTransmit();
  script.ExpectDropped(DropReason::kSequenceGap, Write(Position::kOnly, first + 1));
  script.ExpectDropped(DropReason::kSequenceGap, Write(Position::kOnly, first + 2));
  script.Inject(Write(Position::kOnly, first).AckRequest(false));
  script.Inject(Write(Position::kOnly, first + 1).AckRequest(false));
  script.ReleaseTransmit();
  script.ExpectSent(Nak(first + 2, NakCode::kPsnSequenceError).Msn(2));
  script.ExpectNothingSent();
}

TEST(ResponderAckTest, GapClosedAltogetherGetsNoNak) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.HoldTransmit();
  script.ExpectDropped(DropReason::kSequenceGap, Write(Position::kOnly, first + 1));
  script.Inject(Write(Position::kOnly, first));
  script.Inject(Write(Position::kOnly, first + 1));
  script.ReleaseTransmit();
  script.ExpectSent(Ack(first + 1).Msn(2));
  script.ExpectNothingSent();
  // The next gap gets a NAK.
  script.Inject(Write(Position::kOnly, first + 3));
  script.ExpectSent(Nak(first + 2, NakCode::kPsnSequenceError).Msn(2));
}

// A duplicate that comes before the NAK could be sent is answered by the NAK, which acknowledges
// too.
TEST(ResponderAckTest, ADuplicateDoesNotTakeTheNakAway) {
  Script script;
  const Psn first = script.peers_first_psn();
  const PacketSpec write = Write(Position::kOnly, first);
  script.Inject(write);
  script.ExpectSent(Ack(first));
  script.HoldTransmit();
  script.Inject(Write(Position::kOnly, first + 2));
  script.ExpectDropped(DropReason::kDuplicateRequest, write);
  script.ReleaseTransmit();
  script.ExpectSent(Nak(first + 1, NakCode::kPsnSequenceError).Msn(1));
  script.ExpectNothingSent();
}

TEST(ResponderRnrTest, AReceiveRequestThatComesInTimeIsAllThatWasMissing) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.HoldTransmit();
  script.Inject(Send(Position::kOnly, first));
  script.PostReceive(1, 0, 16);
  script.Inject(Send(Position::kOnly, first));
  script.ReleaseTransmit();
  script.ExpectSent(Ack(first).Msn(1));
  script.ExpectNothingSent();
  script.ExpectCompletion(1);
}

// IBA 9.7.5.2.8: requests after one that got an RNR NAK are dropped silently.
TEST(ResponderRnrTest, OneRnrNakUntilTheRequestComesAgain) {
  Script script({.min_rnr_timer = 17});
  const Psn first = script.peers_first_psn();
  EXPECT_EQ(script.Inject(Send(Position::kOnly, first).With("a")), DropReason::kReceiverNotReady);
  script.ExpectSent(RnrNak(first, 17).Msn(0));
  script.Inject(Send(Position::kOnly, first + 1).With("b"));
  script.Inject(Write(Position::kOnly, first + 2, Script::Address(0), script.rkey(), 1).With("c"));
  script.ExpectNothingSent();
  // There is still no receive request: the request itself gets the RNR NAK again.
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(RnrNak(first, 17).Msn(0));

  script.PostReceive(1, 0, 16);
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(Ack(first).Msn(1));
  EXPECT_EQ(script.ExpectCompletion(1).byte_length, 1u);
  EXPECT_EQ(script.counters().rnr_naks_sent, 2u);
}

TEST(ResponderRnrTest, AWriteNeedsAReceiveOnlyForItsImmediate) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.Inject(Write(Position::kOnly, first, Script::Address(0), script.rkey(), 1).With("a"));
  script.ExpectSent(Ack(first));
  script.Inject(Write(Position::kFirst, first + 1, Script::Address(0), script.rkey(), 257)
                    .With(Pattern(256)));
  script.ExpectNothingSent();
  const PacketSpec last = Write(Position::kLast, first + 2).With(Pattern(1)).Immediate(0x01020304);
  script.Inject(last);
  script.ExpectSent(RnrNak(first + 2, 12));
  script.PostReceive(1, 1'024, 16);
  script.Inject(last);
  script.ExpectSent(Ack(first + 2).Msn(2));
  const auto completion = script.ExpectCompletion(1);
  EXPECT_EQ(completion.opcode, CompletionOpcode::kReceiveRdmaWithImmediate);
  EXPECT_EQ(completion.byte_length, 257u);
  EXPECT_EQ(completion.immediate_or_rkey, 0x01020304u);
  // Expect: the memory of the receive is not used.
  EXPECT_EQ(script.Bytes(1'024, 16), std::vector<uint8_t>(16));
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
