// How the requester handles responses.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

PacketSpec ReadOf(Psn psn, uint64_t offset, uint32_t length) {
  return Read(psn, Script::kPeerAddress + offset, Script::kPeerRkey, length);
}

struct NakCase {
  NakCode code;
  CompletionStatus status;
  VendorError vendor_error;
};

// rxe compared an 8-bit opcode with larger masks, "so nothing is ever reported".
class RequesterNakTest : public testing::TestWithParam<NakCase> {};

// IBA 9.9.2.4.2.
TEST_P(RequesterNakTest, TheRequestFailsThoseBeforeSucceedThoseAfterAreFlushed) {
  const NakCase& nak = GetParam();
  for (uint32_t refused = 0; refused < 3; ++refused) {
    Script script;
    script.PostReceive(50, 1'024, 16);
    for (uint64_t i = 0; i < 3; ++i) script.PostSend(i, 0, 10);
    script.TakeSent();
    script.Inject(Nak(script.first_psn() + refused, nak.code));
    for (uint64_t i = 0; i < refused; ++i) script.ExpectCompletion(i);
    const Completion failed = script.ExpectCompletion(refused, nak.status);
    EXPECT_EQ(failed.vendor_error, nak.vendor_error);
    EXPECT_EQ(failed.qpn, script.qp().qpn());
    for (uint64_t i = refused + 1; i < 3; ++i) {
      script.ExpectCompletion(i, CompletionStatus::kFlushed);
    }
    script.ExpectCompletion(50, CompletionStatus::kFlushed);
    script.ExpectState(QpState::kError);
    script.ExpectNothingSent();
    script.ExpectNoDeadline();
  }
}

// IBA 10.7.3.1.
TEST_P(RequesterNakTest, AnUnsignaledRequestIsReportedToo) {
  Script script;
  SendWorkRequest request;
  request.wr_id = 9;
  request.opcode = SendOpcode::kSend;
  EXPECT_EQ(script.Post(request, 0, 10), Status::kOk);
  script.TakeSent();
  script.Inject(Nak(script.first_psn(), GetParam().code));
  script.ExpectCompletion(9, GetParam().status);
}

// IBA 9.7.6.1.
TEST_P(RequesterNakTest, AStaleNakIsIgnored) {
  Script script;
  script.PostSend(1, 0, 10);
  script.PostSend(2, 0, 10);
  script.TakeSent();
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
  EXPECT_EQ(script.Inject(Nak(script.first_psn(), GetParam().code)), DropReason::kStaleResponse);
  // A NAK for a request that was not sent yet is ignored too.
  EXPECT_EQ(script.Inject(Nak(script.first_psn() + 2, GetParam().code)),
            DropReason::kStaleResponse);
  script.ExpectNoCompletion();
  script.ExpectState(QpState::kReadyToSend);
}

INSTANTIATE_TEST_SUITE_P(
    EveryFatalNak, RequesterNakTest,
    testing::Values(NakCase{NakCode::kInvalidRequest, CompletionStatus::kRemoteInvalidRequest,
                            VendorError::kNakInvalidRequest},
                    NakCase{NakCode::kRemoteAccessError, CompletionStatus::kRemoteAccessError,
                            VendorError::kNakRemoteAccess},
                    NakCase{NakCode::kRemoteOperationalError,
                            CompletionStatus::kRemoteOperationError,
                            VendorError::kNakRemoteOperation}));

// IBA 9.7.5.1.2.
TEST(RequesterAckTest, OneAckCompletesAllBeforeIt) {
  Script script;
  for (uint64_t i = 0; i < 5; ++i) script.PostSend(i, 0, 2 * kPart);
  script.TakeSent();
  script.Inject(Ack(script.first_psn() + 6));  // three and a half messages
  for (uint64_t i = 0; i < 3; ++i) script.ExpectCompletion(i);
  script.ExpectNoCompletion();
  script.Inject(Ack(script.first_psn() + 9));
  script.ExpectCompletion(3);
  script.ExpectCompletion(4);
}

TEST(RequesterAckTest, UnsignaledRequestsCompleteInSilence) {
  Script script;
  SendWorkRequest quiet;
  quiet.opcode = SendOpcode::kSend;
  EXPECT_EQ(script.Post(quiet, 0, 1), Status::kOk);
  script.PostSend(7, 0, 1);
  EXPECT_EQ(script.Post(quiet, 0, 1), Status::kOk);
  script.TakeSent();
  script.Inject(Ack(script.first_psn() + 2));
  script.ExpectCompletion(7);
  script.ExpectNoCompletion();
}

// IBA 9.7.6.1.
TEST(RequesterAckTest, AckOfAPacketNeverSentIsIgnored) {
  Script script;
  script.PostSend(1, 0, 10);
  script.TakeSent();
  for (const uint32_t ahead : {1u, 2u, 1u << 20, 0x7f'ffffu}) {
    EXPECT_EQ(script.Inject(Ack(script.first_psn() + ahead)), DropReason::kStaleResponse);
  }
  for (const uint32_t behind : {1u, 2u, 1u << 20, 0x80'0000u}) {
    EXPECT_EQ(script.Inject(Ack(script.first_psn() - behind)), DropReason::kStaleResponse);
  }
  script.ExpectNoCompletion();
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
}

// IBA 9.9.2.4.1: go back to the PSN the NAK names.
TEST(RequesterAckTest, ANakForAGapSendsAgainFromThere) {
  Script script;
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 3 * kPart);
  script.PostSend(2, 0, 10);
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), 4u);
  script.Inject(Nak(first + 1, NakCode::kPsnSequenceError));
  for (size_t i = 1; i < 4; ++i) script.ExpectSent(sent[i]);
  script.ExpectNothingSent();
  script.Inject(Ack(first + 3));
  script.ExpectCompletion(1);
  script.ExpectCompletion(2);
}

// IBA 9.9.2.4.1.
TEST(RequesterAckTest, NaksForGapsUseUpRetries) {
  Script script({.retry_count = 2});
  script.PostSend(1, 0, 10);
  script.TakeSent();
  for (int i = 0; i < 2; ++i) {
    script.Inject(Nak(script.first_psn(), NakCode::kPsnSequenceError));
    EXPECT_EQ(script.TakeSent().size(), 1u);
  }
  script.Inject(Nak(script.first_psn(), NakCode::kPsnSequenceError));
  EXPECT_EQ(script.ExpectCompletion(1, CompletionStatus::kRetryExceeded).vendor_error,
            VendorError::kPsnNakRetries);
}

class RequesterReadTest : public testing::Test {
 protected:
  PacketSpec Part(Position position, uint32_t index, uint32_t length = kPart) const {
    return ReadResponse(position, first_ + index)
        .With(Pattern(length, static_cast<uint8_t>(index)));
  }
  void ExpectParts(uint64_t offset, uint32_t first_index, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(script_.Bytes(offset + i * kPart, kPart),
                Pattern(kPart, static_cast<uint8_t>(first_index + i)));
    }
  }
  void PostWithWrongKey(uint64_t wr_id, SendOpcode opcode) {
    SendWorkRequest request = Script::Request(wr_id, opcode);
    const ScatterGatherEntry sge{Script::Address(0), 8, LKey{script_.lkey().value ^ 1}};
    request.sges = {&sge, 1};
    EXPECT_EQ(script_.qp().PostSend(request), Status::kOk);
  }

  Script script_;
  const Psn first_ = script_.first_psn();
};

TEST_F(RequesterReadTest, PartsComeInOrder) {
  script_.PostRead(1, 0, 3 * kPart);
  script_.ExpectSent(ReadOf(first_, 0, 3 * kPart));
  script_.Inject(Part(Position::kFirst, 0));
  script_.Inject(Part(Position::kMiddle, 1));
  script_.ExpectNoCompletion();
  script_.Inject(Part(Position::kLast, 2));
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, 3 * kPart);
  ExpectParts(0, 0, 3);
}

// IBA 9.4.4, 9.7.5.1.2: a gap in READ responses is an implied NAK; the READ continues at the gap.
TEST_F(RequesterReadTest, ALostPartIsAskedForAgainFromThere) {
  script_.PostRead(1, 0, 4 * kPart);
  script_.TakeSent();
  script_.Inject(Part(Position::kFirst, 0));
  EXPECT_EQ(script_.Inject(Part(Position::kMiddle, 2)), DropReason::kOutOfOrderResponse);
  script_.ExpectSent(ReadOf(first_ + 1, kPart, 3 * kPart));
  // The rest of the old response brings nothing new.
  script_.Inject(Part(Position::kLast, 3));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.counters().implied_naks, 1u);

  script_.Inject(Part(Position::kFirst, 1));
  script_.Inject(Part(Position::kMiddle, 2));
  script_.Inject(Part(Position::kLast, 3));
  script_.ExpectCompletion(1);
  ExpectParts(0, 0, 4);
}

// IBA 9.7.5.1.2.
TEST_F(RequesterReadTest, AnAckBehindAReadImpliesThatItsResponseWasLost) {
  script_.PostRead(1, 0, kPart);
  script_.PostSend(2, 1'024, 10);
  const auto sent = script_.TakeSent();
  EXPECT_EQ(script_.Inject(Ack(first_ + 1)), DropReason::kOutOfOrderResponse);
  script_.ExpectNoCompletion();  // the SEND waits for the READ
  script_.ExpectSent(sent[0]);
  script_.ExpectSent(sent[1]);
  script_.Inject(Part(Position::kOnly, 0));
  script_.ExpectCompletion(1);
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(2);
}

// IBA 9.7.5.1.2.
TEST_F(RequesterReadTest, ReadResponseAcknowledgesEarlierRequests) {
  script_.PostSend(1, 1'024, 10);
  script_.PostRead(2, 0, kPart);
  script_.TakeSent();
  script_.Inject(Part(Position::kOnly, 1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
}

// IBA 9.7.6.1.
TEST_F(RequesterReadTest, ADuplicatePartIsIgnored) {
  script_.PostRead(1, 0, 2 * kPart);
  script_.TakeSent();
  script_.Inject(Part(Position::kFirst, 0));
  EXPECT_EQ(script_.Inject(Part(Position::kFirst, 0).With(Pattern(kPart, 99))),
            DropReason::kStaleResponse);
  script_.Inject(Part(Position::kLast, 1));
  script_.ExpectCompletion(1);
  ExpectParts(0, 0, 2);
}

// An entry of the queue that was not started yet has PSN 0: it must not be taken for one sent.
TEST(UnsentReadTest, ItsResponseIsStale) {
  Script script({.first_psn = Psn(0)});
  script.HoldTransmit();
  script.PostRead(1, 0, 2 * kPart);
  script.ExpectDropped(DropReason::kStaleResponse,
                       ReadResponse(Position::kFirst, Psn(0)).With(Pattern(kPart)));
  EXPECT_EQ(script.Bytes(0, kPart), std::vector<uint8_t>(kPart));
  script.ReleaseTransmit();
  script.ExpectSent(ReadOf(Psn(0), 0, 2 * kPart));
}

TEST_F(RequesterReadTest, AResponseBeforeTheRetransmissionMakesThatUnnecessary) {
  script_.PostRead(1, 0, kPart);
  script_.ExpectSent(ReadOf(first_, 0, kPart));
  script_.HoldTransmit();
  script_.Advance(Milliseconds(100));  // an ACK timeout
  script_.Inject(Part(Position::kOnly, 0));
  script_.ExpectCompletion(1);
  script_.ReleaseTransmit();
  script_.ExpectNothingSent();
  script_.PostRead(2, 0, kPart);
  script_.ExpectSent(ReadOf(first_ + 1, 0, kPart));
}

// The second READ uses the entry of the first, whose data was in one piece.
TEST(ReadOfAListTest, FillsItsPieces) {
  Script script({.queue_depth = 1});
  const Psn first = script.first_psn();
  script.PostRead(1, 0, 8);
  script.TakeSent();
  script.Inject(ReadResponse(Position::kOnly, first).With(Pattern(8)));
  script.ExpectCompletion(1);

  const ScatterGatherEntry pieces[] = {{Script::Address(1'024), 4, script.lkey()},
                                       {Script::Address(2'048), 4, script.lkey()}};
  SendWorkRequest read = Script::Request(2, SendOpcode::kRdmaRead);
  read.sges = pieces;
  ASSERT_EQ(script.qp().PostSend(read), Status::kOk);
  script.TakeSent();
  script.Inject(ReadResponse(Position::kOnly, first + 1).With("abcdefgh"));
  script.ExpectCompletion(2);
  EXPECT_EQ(script.Bytes(0, 8), Pattern(8));
  EXPECT_EQ(script.Bytes(1'024, 4), (std::vector<uint8_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(script.Bytes(2'048, 4), (std::vector<uint8_t>{'e', 'f', 'g', 'h'}));
}

// ibv_rereg_mr while the READ is in flight.
TEST_F(RequesterReadTest, ReadIntoMemoryThatMayNoLongerBeWrittenIsALocalProtectionError) {
  MemoryTable& memory = script_.endpoint().memory();
  MemoryRegion region = {Script::kPd, Script::kIova, script_.memory(), Script::kMemoryBytes,
                         AccessFlags(AccessFlags::kLocalWrite)};
  const auto key = memory.Register(region);
  ASSERT_TRUE(key);
  const ScatterGatherEntry sge{Script::Address(0), 8, *key};
  SendWorkRequest read = Script::Request(1, SendOpcode::kRdmaRead);
  read.sges = {&sge, 1};
  ASSERT_EQ(script_.qp().PostSend(read), Status::kOk);
  script_.ExpectSent(ReadOf(first_, 0, 8));
  region.access = AccessFlags(0);
  ASSERT_EQ(memory.Reregister(*key, region), Status::kOk);
  script_.Inject(Part(Position::kOnly, 0, 8));
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(script_.Bytes(0, 8), std::vector<uint8_t>(8));
}

// IBA 9.9.2.4.2: a response that does not fit the request ends it; none of its data is written.
class WrongResponseTest : public testing::TestWithParam<uint32_t> {
 protected:
  // The response comes after the first part of a READ of 2 parts and 10 bytes.
  void ExpectBadResponse(const PacketSpec& response) {
    Script script;
    script.PostRead(1, 0, 2 * kPart + 10);
    script.PostSend(2, 4'096, 10);
    script.TakeSent();
    script.Inject(ReadResponse(Position::kFirst, script.first_psn()).With(Pattern(kPart)));
    PacketSpec spec = response;
    spec.psn = script.first_psn() + 1;
    script.ExpectDropped(DropReason::kMalformedResponse, spec);
    EXPECT_EQ(script.ExpectCompletion(1, CompletionStatus::kBadResponse).vendor_error,
              VendorError::kWrongResponse);
    script.ExpectCompletion(2, CompletionStatus::kFlushed);
    script.ExpectState(QpState::kError);
    script.ExpectNothingSent();
    EXPECT_EQ(script.Bytes(kPart, 3 * kPart), std::vector<uint8_t>(3 * kPart));
  }
};

TEST_P(WrongResponseTest, APartOfTheWrongLengthIsABadResponse) {
  ExpectBadResponse(ReadResponse(Position::kMiddle, Psn()).With(Pattern(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(Lengths, WrongResponseTest,
                         testing::Values(0u, 1u, kPart - 1, kPart + 1, 2 * kPart));

TEST_F(WrongResponseTest, AnEndInTheMiddleIsABadResponse) {
  ExpectBadResponse(ReadResponse(Position::kLast, Psn()).With(Pattern(kPart)));
  ExpectBadResponse(ReadResponse(Position::kOnly, Psn()).With(Pattern(kPart)));
}

TEST_F(WrongResponseTest, AnAtomicAnswerToAReadIsABadResponse) {
  ExpectBadResponse(AtomicAck(Psn(), 5));
}

// No response of any kind may write more than the READ asked for.
TEST_F(RequesterReadTest, ATooLongLastPartDoesNotWriteBeyondTheRead) {
  script_.PostRead(1, 0, 10);
  script_.TakeSent();
  script_.Inject(Part(Position::kOnly, 0, 200));
  EXPECT_EQ(script_.Bytes(0, 200), std::vector<uint8_t>(200));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
}

TEST_F(RequesterReadTest, ALastPartThatGoesOnIsABadResponse) {
  script_.PostRead(1, 0, kPart);
  script_.TakeSent();
  script_.Inject(Part(Position::kFirst, 0));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
}

TEST_F(RequesterReadTest, DataInAnswerToASendIsABadResponse) {
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  script_.Inject(Part(Position::kOnly, 0, 10));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
  EXPECT_EQ(script_.Bytes(0, 10), std::vector<uint8_t>(10));
}

TEST_F(RequesterReadTest, AnEmptyReadResponseToASendIsABadResponse) {
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  script_.Inject(Part(Position::kOnly, 0, 0));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
}

TEST_F(RequesterReadTest, DataInAnswerToAnAtomicIsABadResponse) {
  script_.PostFetchAdd(1, 0, 5);
  script_.TakeSent();
  script_.Inject(Part(Position::kOnly, 0, 8));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
  EXPECT_EQ(script_.Word(0), 0u);
}

// IBA 9.4.4.
TEST_F(RequesterReadTest, AtMostMaxReadAtomicAreOutstanding) {
  for (uint64_t i = 0; i < 6; ++i) script_.PostRead(i, i * kPart, kPart);
  EXPECT_EQ(script_.TakeSent().size(), 4u);
  script_.Inject(Part(Position::kOnly, 0));
  script_.ExpectCompletion(0);
  script_.ExpectSent(ReadOf(first_ + 4, 0, kPart));
  script_.ExpectNothingSent();
  for (uint32_t i = 1; i < 6; ++i) {
    script_.Inject(Part(Position::kOnly, i));
    script_.ExpectCompletion(i);
    script_.TakeSent();
  }
  ExpectParts(0, 0, 6);
}

// IBA 10.8.3.3: a fenced request waits for the READs and atomics before it.
TEST_F(RequesterReadTest, AFenceWaitsForReads) {
  script_.PostRead(1, 0, kPart);
  SendWorkRequest request;
  request.wr_id = 2;
  request.opcode = SendOpcode::kSend;
  request.signaled = true;
  request.fence = true;
  EXPECT_EQ(script_.Post(request, 0, kPart), Status::kOk);
  script_.ExpectSent(ReadOf(first_, 0, kPart));
  script_.ExpectNothingSent();
  script_.Inject(Part(Position::kOnly, 0));
  script_.ExpectCompletion(1);
  script_.ExpectSent(Send(Position::kOnly, first_ + 1).With(Pattern(kPart)));
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(2);
}

TEST_F(RequesterReadTest, AtomicReturnsTheOriginalValue) {
  script_.PostFetchAdd(1, 64, 5);
  script_.ExpectSent(FetchAdd(first_, Script::kPeerAddress, Script::kPeerRkey, 5));
  script_.Inject(AtomicAck(first_, 0x1122'3344'5566'7788));
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, 8u);
  EXPECT_EQ(script_.Word(64), 0x1122'3344'5566'7788u);
}

// A request that cannot be executed here is never sent, and the requests before it still succeed.
TEST_F(RequesterReadTest, ALocalProtectionErrorWaitsForThoseBefore) {
  script_.PostSend(1, 0, 10);
  PostWithWrongKey(2, SendOpcode::kRdmaWrite);
  script_.PostSend(3, 0, 10);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.ExpectNoCompletion();
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2, CompletionStatus::kLocalProtectionError);
  script_.ExpectCompletion(3, CompletionStatus::kFlushed);
  script_.ExpectState(QpState::kError);
}

// NICs and rxe look at the buffer of a response when the response is here: the peer has executed
// the request by then.
TEST_F(RequesterReadTest, WrongKeyOfABufferForAResponseIsFoundWhenTheResponseComes) {
  PostWithWrongKey(1, SendOpcode::kFetchAndAdd);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.ExpectNoCompletion();
  script_.Inject(AtomicAck(first_, 7));
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script_.ExpectState(QpState::kError);
}

TEST_F(RequesterReadTest, RefusalByThePeerComesBeforeAWrongKeyOfTheBuffer) {
  PostWithWrongKey(1, SendOpcode::kRdmaRead);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.Inject(Nak(first_, NakCode::kRemoteAccessError));
  script_.ExpectCompletion(1, CompletionStatus::kRemoteAccessError);
}

// PSNs wrap around to 0.
TEST(RequesterWrapTest, MessagesAndReadsGoOverTheWrap) {
  Script script({.first_psn = Psn(0xff'fffe)});
  script.PostSend(1, 4'096, 3 * kPart);
  EXPECT_EQ(script.TakeSent().at(2).psn, Psn(0));
  script.PostRead(2, 0, 2 * kPart);
  script.ExpectSent(ReadOf(Psn(1), 0, 2 * kPart));
  script.Inject(Nak(Psn(0xff'ffff), NakCode::kPsnSequenceError));
  const auto again = script.TakeSent();
  ASSERT_EQ(again.size(), 3u);
  EXPECT_EQ(again[0].psn, Psn(0xff'ffff));
  EXPECT_EQ(again[1].psn, Psn(0));
  script.Inject(Ack(Psn(0)));
  script.ExpectCompletion(1);
  script.Inject(ReadResponse(Position::kFirst, Psn(1)).With(Pattern(kPart)));
  script.Inject(ReadResponse(Position::kLast, Psn(2)).With(Pattern(kPart)));
  script.ExpectCompletion(2);
}

// A READ whose own packets cross the wrap is resumed after it.
TEST(RequesterWrapTest, AReadIsResumedBehindTheWrap) {
  Script script({.first_psn = Psn(0xff'ffff)});
  script.PostRead(1, 0, 4 * kPart);
  script.TakeSent();
  script.Inject(ReadResponse(Position::kFirst, Psn(0xff'ffff)).With(Pattern(kPart)));
  script.Inject(ReadResponse(Position::kMiddle, Psn(0)).With(Pattern(kPart)));
  script.Inject(ReadResponse(Position::kLast, Psn(2)).With(Pattern(kPart)));
  script.ExpectSent(ReadOf(Psn(1), 2 * kPart, 2 * kPart));
  script.TakeCompletions();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
