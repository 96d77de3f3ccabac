// End-to-end credits: how a responder reports its receive requests, and how a requester keeps to
// the reported number (IBA 9.7.7.2).

#include <gtest/gtest.h>

#include <array>

#include "tests/packet_scripts/script.h"
#include "transport/qp/credits.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;
constexpr uint8_t kNoInformation = 31;

// The credit codes, written by hand: the number of receive requests for each code.
constexpr std::array<uint32_t, 31> kCreditsOfCode = {
    0,     1,     2,     3,     4,     6,      8,      12,     16,    24,    32,
    48,    64,    96,    128,   192,   256,    384,    512,    768,   1'024, 1'536,
    2'048, 3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768};

uint8_t CodeFor(uint32_t receives) {
  uint8_t code = 0;
  while (code + 1u < kCreditsOfCode.size() && kCreditsOfCode[code + 1u] <= receives) ++code;
  return code;
}

class CreditResponderTest : public testing::Test {
 protected:
  void PostReceives(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) script_.PostReceive(next_receive_++, 1'024, 2 * kPart);
  }
  PacketSpec EmptyWrite(Psn psn) const { return Write(Position::kOnly, psn); }

  Script script_{{.queue_depth = 16'384}};
  const Psn first_ = script_.peers_first_psn();
  uint64_t next_receive_ = 0;
};

// An ACK reports the largest number of the table that is not too high; tests around every number.
// IBA 9.7.7.2.
TEST_F(CreditResponderTest, AckReportsTheRemainingReceiveRequests) {
  Psn psn = first_;
  uint32_t posted = 0;
  for (const uint32_t credits : kCreditsOfCode) {
    for (const int32_t more : {-1, 0, 1}) {
      const auto wanted = static_cast<uint32_t>(static_cast<int32_t>(credits) + more);
      if (wanted < posted || wanted > 16'384) continue;
      PostReceives(wanted - posted);
      posted = wanted;
      script_.Inject(EmptyWrite(psn));
      script_.ExpectSent(Ack(psn).Credits(CodeFor(posted)));
      ++psn;
    }
  }
  EXPECT_EQ(posted, 16'384u);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

// The largest code also stands for larger numbers, which no queue can have.
TEST(CreditCodeTest, CountsBeyondTheTableGetTheLargestCode) {
  for (const uint32_t requests : {32'767u, 32'768u, 65'536u, 0x7fff'ffffu, 0xffff'ffffu}) {
    EXPECT_EQ(EncodeCredits(requests), CodeFor(requests)) << requests;
  }
}

TEST_F(CreditResponderTest, EveryAethCarriesCredits) {
  PostReceives(3);
  script_.Inject(Read(first_, Script::Address(0), script_.rkey(), 2 * kPart + 1));
  script_.ExpectSent(
      ReadResponse(Position::kFirst, first_).With(script_.Bytes(0, kPart)).Credits(3));
  script_.TakeSent();
  script_.Inject(Read(first_ + 3, Script::Address(0), script_.rkey(), 0));
  script_.ExpectSent(ReadResponse(Position::kOnly, first_ + 3).Credits(3));
  script_.Inject(FetchAdd(first_ + 4, Script::Address(0), script_.rkey(), 1));
  script_.ExpectSent(AtomicAck(first_ + 4, 0).Credits(3));
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

// A request in use counts until its message is complete: until then the MSN does not count it.
TEST_F(CreditResponderTest, AMessageTakesItsCreditWhenItIsComplete) {
  PostReceives(2);
  script_.Inject(Send(Position::kFirst, first_).With(Pattern(kPart)).AckRequest());
  script_.ExpectSent(Ack(first_).Msn(0).Credits(2));
  script_.Inject(Send(Position::kLast, first_ + 1).With("x"));
  script_.ExpectSent(Ack(first_ + 1).Msn(1).Credits(1));
  script_.ExpectCompletion(0);
  script_.Inject(EmptyWrite(first_ + 2).Immediate(7));
  script_.ExpectSent(Ack(first_ + 2).Msn(2).Credits(0));
  script_.ExpectCompletion(1);
}

// IBA 9.7.7.2: with a shared receive queue the responder cannot know.
TEST(CreditSharedTest, WithASharedReceiveQueueThereIsNoInformation) {
  Script script({.shared_receive_queue = true});
  script.PostReceive(1, 1'024, 16);
  const Psn first = script.peers_first_psn();
  script.Inject(Write(Position::kOnly, first));
  script.ExpectSent(Ack(first).Credits(kNoInformation));
  script.Inject(Read(first + 1, 0, {}, 0));
  script.ExpectSent(ReadResponse(Position::kOnly, first + 1).Credits(kNoInformation));
  script.Inject(FetchAdd(first + 2, Script::Address(0), script.rkey(), 1));
  script.ExpectSent(AtomicAck(first + 2, 0).Credits(kNoInformation));
}

class CreditRequesterTest : public testing::Test {
 protected:
  void ExpectSends(uint32_t first_offset, uint32_t count) {
    const auto sent = script_.TakeSent();
    EXPECT_EQ(sent.size(), count);
    for (uint32_t i = 0; i < sent.size(); ++i) EXPECT_EQ(sent[i].psn, first_ + first_offset + i);
  }
  void PostSends(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) script_.PostSend(next_send_++, 0, 1);
  }
  void ExpectCompletions(uint64_t from, uint64_t to) {
    for (uint64_t wr_id = from; wr_id < to; ++wr_id) script_.ExpectCompletion(wr_id);
  }
  void ExpectResetWithoutWord() { EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk); }

  Script script_{{.timeout = 8, .peer_counts_credits = true}};
  const Psn first_ = script_.first_psn();
  uint64_t next_send_ = 0;
};

// At first the requester knows nothing of the peer: one message asks.
// IBA 9.7.7.2.5.
TEST_F(CreditRequesterTest, TheFirstSendGoesAlone) {
  PostSends(4);
  ExpectSends(0, 1);
  script_.Inject(Ack(first_).Msn(1).Credits(2));
  ExpectCompletions(0, 1);
  ExpectSends(1, 2);
  script_.Inject(Ack(first_ + 2).Msn(3).Credits(8));
  ExpectCompletions(1, 3);
  ExpectSends(3, 1);
  ExpectResetWithoutWord();
}

// With no credit left one request is sent as a probe; its ACK brings new credits.
// IBA 9.7.7.2.5.
TEST_F(CreditRequesterTest, OneProbeIsSentWhenCreditsRunOut) {
  PostSends(4);
  ExpectSends(0, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    script_.Inject(Ack(first_ + i).Msn(i + 1).Credits(0));
    ExpectCompletions(i, i + 1);
    ExpectSends(i + 1, 1);
  }
  ExpectResetWithoutWord();
}

// The probe of a long SEND is its first packet, which takes the receive request.
// IBA 9.7.7.2.5.
TEST_F(CreditRequesterTest, TheProbeOfALongSendIsItsFirstPacket) {
  script_.PostSend(0, 0, 3 * kPart);
  const PacketSpec probe =
      script_.ExpectSent(Send(Position::kFirst, first_).With(script_.Bytes(0, kPart)));
  script_.ExpectNothingSent();
  EXPECT_TRUE(probe.ack_request);
  script_.Inject(Ack(first_).Msn(0).Credits(0));
  ExpectSends(1, 2);
  script_.Inject(Ack(first_ + 2).Msn(1).Credits(0));
  script_.ExpectCompletion(0);
}

// The probe of a WRITE with immediate is the whole message: its last packet takes the request.
// IBA 9.7.7.2.5.
TEST_F(CreditRequesterTest, TheProbeOfAWriteWithImmediateIsTheWholeMessage) {
  SendWorkRequest write;
  write.opcode = SendOpcode::kRdmaWriteWithImmediate;
  EXPECT_EQ(script_.Post(write, 0, 3 * kPart), Status::kOk);
  PostSends(1);
  ExpectSends(0, 3);
  script_.Inject(Ack(first_ + 2).Msn(1).Credits(0));
  ExpectSends(3, 1);
  ExpectResetWithoutWord();
}

// IBA 9.7.7.2.5: a probe that finds no receive request is repeated like any request.
TEST_F(CreditRequesterTest, ProbeIsRepeatedAfterAnRnrNak) {
  PostSends(2);
  ExpectSends(0, 1);
  script_.Inject(RnrNak(first_, 1));
  script_.ExpectNothingSent();
  script_.Advance(Microseconds(10));
  ExpectSends(0, 1);
  script_.Inject(Ack(first_).Msn(1).Credits(1));
  ExpectCompletions(0, 1);
  ExpectSends(1, 1);
  ExpectResetWithoutWord();
}

TEST_F(CreditRequesterTest, ALostProbeIsSentAgain) {
  PostSends(2);
  ExpectSends(0, 1);
  script_.Advance(Duration{int64_t{4'096} << 8});
  ExpectSends(0, 1);
  ExpectResetWithoutWord();
}

// A request that takes no receive request needs no credit, and uses up none.
// IBA 9.7.7.2.5.
TEST_F(CreditRequesterTest, WritesReadsAndAtomicsGoFreely) {
  PostSends(1);
  ExpectSends(0, 1);
  script_.PostWrite(101, 0, 1);
  script_.PostRead(102, 0, 1);
  script_.PostFetchAdd(103, 8, 1);
  ExpectSends(1, 3);
  PostSends(2);
  script_.ExpectNothingSent();
  // The peer has carried out the first SEND and has two more receive requests.
  script_.Inject(Ack(first_).Msn(1).Credits(2));
  ExpectCompletions(0, 1);
  ExpectSends(4, 2);
  ExpectResetWithoutWord();
}

// Each WRITE raises the limit by one: the MSN will count it, but it takes no receive request.
TEST_F(CreditRequesterTest, AWriteAmongSendsTakesNoCredit) {
  PostSends(1);
  ExpectSends(0, 1);
  script_.Inject(Ack(first_).Msn(1).Credits(2));
  ExpectCompletions(0, 1);
  script_.PostWrite(100, 0, 1);
  PostSends(3);
  ExpectSends(1, 3);  // the WRITE and two SENDs
  ExpectResetWithoutWord();
}

// An MSN may count requests whose ACK is still to come: they are not counted twice.
TEST_F(CreditRequesterTest, MsnAheadOfItsAckIsNotCountedTwice) {
  PostSends(1);
  script_.PostWrite(100, 0, 1);
  ExpectSends(0, 2);
  PostSends(3);
  script_.Inject(Ack(first_).Msn(2).Credits(1));  // SEND and WRITE are carried out
  ExpectCompletions(0, 1);
  ExpectSends(2, 1);
  ExpectResetWithoutWord();
}

// The responses of READs and atomics carry the same information.
TEST_F(CreditRequesterTest, ResponsesOfReadsAndAtomicsBringCreditsToo) {
  script_.PostRead(100, 0, 1);
  script_.PostFetchAdd(101, 8, 1);
  PostSends(5);
  EXPECT_EQ(script_.TakeSent().size(), 2u) << "a SEND behind what is outstanding is no probe";
  script_.Inject(ReadResponse(Position::kOnly, first_).With("x").Msn(1).Credits(2));
  script_.ExpectCompletion(100);
  ExpectSends(2, 2);
  script_.Inject(AtomicAck(first_ + 1, 5).Msn(2).Credits(3));
  script_.ExpectCompletion(101);
  ExpectSends(4, 1);
  ExpectResetWithoutWord();
}

TEST_F(CreditRequesterTest, LaterAckDoesNotRevokeCredits) {
  PostSends(1);
  ExpectSends(0, 1);
  script_.Inject(Ack(first_).Msn(1).Credits(4));
  ExpectCompletions(0, 1);
  PostSends(2);
  ExpectSends(1, 2);
  script_.Inject(Ack(first_ + 1).Msn(2).Credits(0));
  ExpectCompletions(1, 2);
  PostSends(2);
  ExpectSends(3, 2);
  ExpectResetWithoutWord();
}

// A requester does not wait for a peer without credit information (rxe, or a shared receive queue).
// IBA 9.7.7.2.
TEST_F(CreditRequesterTest, NoInformationMeansNoLimit) {
  PostSends(3);
  ExpectSends(0, 1);
  script_.Inject(Ack(first_).Msn(1).Credits(kNoInformation));
  ExpectCompletions(0, 1);
  ExpectSends(1, 2);
  // Such a peer does not begin to count later.
  script_.Inject(Ack(first_ + 2).Msn(3).Credits(0));
  ExpectCompletions(1, 3);
  PostSends(5);
  ExpectSends(3, 5);
  ExpectResetWithoutWord();
}

// The last ACK again, with other credits: the peer has posted receive requests.
// IBA 9.7.7.2.
TEST_F(CreditRequesterTest, AnUnsolicitedAckBringsNews) {
  EXPECT_EQ(script_.Inject(Ack(first_ - 1).Msn(0).Credits(3)), DropReason::kNone);
  PostSends(4);
  ExpectSends(0, 3);
  script_.Inject(Ack(first_ + 2).Msn(3).Credits(0));
  ExpectCompletions(0, 3);
  ExpectSends(3, 1);  // the probe
  script_.Inject(Ack(first_ + 3).Msn(4).Credits(0));
  ExpectCompletions(3, 4);
  EXPECT_EQ(script_.Inject(Ack(first_ + 3).Msn(4).Credits(2)), DropReason::kNone);
  PostSends(3);
  ExpectSends(4, 2);
  // An older ACK brings nothing new.
  script_.ExpectDropped(DropReason::kStaleResponse, Ack(first_ + 2).Msn(3).Credits(9));
  script_.ExpectNothingSent();
  ExpectResetWithoutWord();
}

TEST_F(CreditRequesterTest, ResetForgetsCredits) {
  script_.Inject(Ack(first_ - 1).Msn(0).Credits(kNoInformation));
  PostSends(2);
  ExpectSends(0, 2);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.Connect();
  PostSends(2);
  ExpectSends(0, 1);
  ExpectResetWithoutWord();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
