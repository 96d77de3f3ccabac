// FLUSH and ATOMIC WRITE (annex A19) at the requester: which requests can be posted and are sent,
// and how a lost response is handled.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint64_t kAt = 4'096;
constexpr uint64_t kNumber = 0x1122'3344'5566'7788;

class PlacementRequesterTest : public testing::Test {
 protected:
  void PostAtomicWrite(uint64_t wr_id, uint64_t offset) {
    EXPECT_EQ(script_.Post(Script::Request(wr_id, SendOpcode::kAtomicWrite), offset, 8),
              Status::kOk);
  }
  static SendWorkRequest FlushRequest(uint64_t wr_id, uint32_t length) {
    SendWorkRequest request = Script::Request(wr_id, SendOpcode::kFlush);
    request.placement = Placement::kGlobal;
    request.flush_length = length;
    return request;
  }
  void PostFlush(uint64_t wr_id, uint32_t length) {
    EXPECT_EQ(script_.Post(FlushRequest(wr_id, length), 0, 0), Status::kOk);
  }
  PacketSpec Written(uint32_t index, uint64_t number) const {
    return AtomicWrite(first_ + index, Script::kPeerAddress, Script::kPeerRkey, number);
  }
  PacketSpec Flushed(uint32_t index, uint32_t length) const {
    return Flush(first_ + index, Script::kPeerAddress, Script::kPeerRkey, length);
  }
  PacketSpec Answer(uint32_t index) const { return ReadResponse(Position::kOnly, first_ + index); }

  Script script_;
  const Psn first_ = script_.first_psn();
};

TEST_F(PlacementRequesterTest, AnAtomicWriteBringsItsEightBytes) {
  script_.SetWord(64, kNumber);
  PostAtomicWrite(1, 64);
  script_.ExpectSent(Written(0, kNumber));
  script_.ExpectNoCompletion();
  script_.Inject(Answer(0).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(1).opcode, CompletionOpcode::kAtomicWrite);
  EXPECT_EQ(script_.Word(64), kNumber) << "a response of no bytes changes nothing";
}

TEST_F(PlacementRequesterTest, InlineDataIsSentAsItWasWhenPosted) {
  SendWorkRequest request = Script::Request(1, SendOpcode::kAtomicWrite);
  uint64_t number = kNumber;
  const ScatterGatherEntry sge{reinterpret_cast<uintptr_t>(&number), 8, {}};
  request.sges = {&sge, 1};
  request.inline_data = true;
  script_.HoldTransmit();
  EXPECT_EQ(script_.qp().PostSend(request), Status::kOk);
  number = 0;
  script_.ReleaseTransmit();
  script_.ExpectSent(Written(0, kNumber));
  script_.Inject(Answer(0));
  script_.ExpectCompletion(1);
}

TEST_F(PlacementRequesterTest, FlushCarriesItsTypeAndSelectivity) {
  PostFlush(1, 4'000);
  script_.ExpectSent(Flushed(0, 4'000));
  script_.Inject(Answer(0).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(1).opcode, CompletionOpcode::kFlush);

  SendWorkRequest region = FlushRequest(2, 0);
  region.placement = Placement::kGlobal | Placement::kPersistent;
  region.selectivity = Selectivity::kRegion;
  EXPECT_EQ(script_.Post(region, 0, UINT32_MAX), Status::kOk) << "its SGE is not looked at";
  PacketSpec expected = Flushed(1, 0);
  expected.feth = {region.placement, region.selectivity};
  script_.ExpectSent(expected);
  script_.Inject(Answer(1).Msn(2));
  script_.ExpectCompletion(2);
}

TEST_F(PlacementRequesterTest, UndefinedFlushIsRefusedWhenPosted) {
  const auto post = [&](auto change) {
    SendWorkRequest request = FlushRequest(1, 8);
    change(request);
    return script_.Post(request, 0, 0);
  };
  EXPECT_EQ(post([](auto& r) { r.placement = 0; }), Status::kInvalidArgument);
  EXPECT_EQ(post([](auto& r) { r.placement = 4; }), Status::kInvalidArgument);
  EXPECT_EQ(post([](auto& r) { r.selectivity = static_cast<Selectivity>(2); }),
            Status::kInvalidArgument);
  EXPECT_EQ(post([](auto& r) { r.flush_length = (1u << 31) + 1; }), Status::kInvalidArgument);
  EXPECT_EQ(post([](auto& r) { r.inline_data = true; }), Status::kInvalidArgument);
  script_.ExpectNothingSent();
}

// IBA 9.4.4: they count like READs.
TEST_F(PlacementRequesterTest, AtMostMaxReadAtomicAreOutstanding) {
  for (uint64_t i = 0; i < 3; ++i) PostAtomicWrite(i, 0);
  script_.PostRead(3, 1'024, 8);
  PostFlush(4, 8);
  EXPECT_EQ(script_.TakeSent().size(), 4u);
  script_.Inject(Answer(0));
  script_.ExpectCompletion(0);
  script_.ExpectSent(Flushed(4, 8));
  script_.Inject(Answer(1));
  script_.Inject(Answer(2));
  script_.Inject(Answer(3).With(Pattern(8)));
  script_.Inject(Answer(4));
  for (uint64_t i = 1; i < 5; ++i) script_.ExpectCompletion(i);
}

// IBA 10.8.3.3.
TEST_F(PlacementRequesterTest, FenceWaitsForAtomicWriteAndFlush) {
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  SendWorkRequest write = Script::Request(3, SendOpcode::kRdmaWrite);
  write.fence = true;
  EXPECT_EQ(script_.Post(write, 0, 8), Status::kOk);
  EXPECT_EQ(script_.TakeSent().size(), 2u);
  script_.Inject(Answer(0));
  script_.ExpectCompletion(1);
  script_.ExpectNothingSent();
  script_.Inject(Answer(1));
  script_.ExpectCompletion(2);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.Inject(Ack(first_ + 2));
  script_.ExpectCompletion(3);
}

// The response to the first request is lost: the second response implies it (IBA 9.7.5.1.2).
TEST_F(PlacementRequesterTest, ALostResponseIsAskedForAgain) {
  script_.SetWord(0, kNumber);
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  script_.PostSend(3, 0, 4);
  EXPECT_EQ(script_.TakeSent().size(), 3u);
  script_.ExpectDropped(DropReason::kOutOfOrderResponse, Answer(1));
  script_.ExpectNoCompletion();
  script_.ExpectSent(Written(0, kNumber));
  script_.ExpectSent(Flushed(1, 8));
  script_.ExpectSent(Send(Position::kOnly, first_ + 2).With(script_.Bytes(0, 4)));
  // An ACK does not replace their responses.
  script_.ExpectDropped(DropReason::kOutOfOrderResponse, Ack(first_ + 2));
  script_.Inject(Answer(0));
  script_.Inject(Answer(1));
  script_.Inject(Ack(first_ + 2));
  for (uint64_t i = 1; i < 4; ++i) script_.ExpectCompletion(i);
  EXPECT_EQ(script_.counters().implied_naks, 1u);
}

// IBA 9.9.2.4.1.
TEST_F(PlacementRequesterTest, AtomicWriteAndFlushAreResentAfterTheTimeout) {
  script_.SetWord(0, kNumber);
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  script_.TakeSent();
  script_.Advance(Milliseconds(100));  // 67 ms
  script_.ExpectSent(Written(0, kNumber));
  script_.ExpectNothingSent();
  script_.Inject(Answer(0));
  script_.ExpectSent(Flushed(1, 8));
  script_.Inject(Answer(1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  script_.ExpectNoDeadline();
}

TEST_F(PlacementRequesterTest, NakCompletesTheFlushInError) {
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  script_.TakeSent();
  script_.Inject(Answer(0));
  script_.ExpectCompletion(1);
  script_.Inject(Nak(first_ + 1, NakCode::kRemoteAccessError));
  EXPECT_EQ(script_.ExpectCompletion(2, CompletionStatus::kRemoteAccessError).opcode,
            CompletionOpcode::kFlush);
}

// Data, or the result of an atomic, is a bad response to either.
TEST_F(PlacementRequesterTest, OtherResponseTypesAreBadResponses) {
  for (const bool flushes : {false, true}) {
    for (const bool is_atomic : {false, true}) {
      Script script;
      SendWorkRequest request =
          flushes ? FlushRequest(1, 8) : Script::Request(1, SendOpcode::kAtomicWrite);
      EXPECT_EQ(script.Post(request, 0, flushes ? 0 : 8), Status::kOk);
      script.TakeSent();
      script.ExpectDropped(
          DropReason::kMalformedResponse,
          is_atomic ? AtomicAck(script.first_psn(), 1)
                    : ReadResponse(Position::kOnly, script.first_psn()).With(Pattern(8)));
      script.ExpectCompletion(1, CompletionStatus::kBadResponse);
      EXPECT_EQ(script.Word(0), 0u);
    }
  }
}

TEST_F(PlacementRequesterTest, ReadResponseFirstIsABadResponse) {
  PostFlush(1, 8);
  script_.TakeSent();
  script_.ExpectDropped(DropReason::kMalformedResponse, ReadResponse(Position::kFirst, first_));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
}

// An ATOMIC WRITE whose number may not be read is never sent.
TEST_F(PlacementRequesterTest, AWrongLocalKeyIsAProtectionError) {
  SendWorkRequest request = Script::Request(1, SendOpcode::kAtomicWrite);
  const ScatterGatherEntry sge{Script::Address(0), 8, LKey{script_.lkey().value ^ 1}};
  request.sges = {&sge, 1};
  EXPECT_EQ(script_.qp().PostSend(request), Status::kOk);
  script_.ExpectNothingSent();
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
}

// IBA 11.4.1.1: only reliable services have these operations.
TEST(PlacementServicesTest, UnreliableServicesFailAtomicWriteAndFlush) {
  for (const QpType type : {QpType::kUnreliableConnection, QpType::kUnreliableDatagram}) {
    for (const SendOpcode opcode : {SendOpcode::kAtomicWrite, SendOpcode::kFlush}) {
      Script script({.type = type});
      SendWorkRequest request = Script::Request(1, opcode);
      request.placement = Placement::kGlobal;
      EXPECT_EQ(script.Post(request, 0, 8), Status::kOk);
      script.ExpectCompletion(1, CompletionStatus::kLocalQpOperationError);
      script.ExpectState(QpState::kSendQueueError);
    }
  }
}

TEST(PlacementServicesTest, AnXrcInitiatorNamesTheQueue) {
  Script script({.type = QpType::kXrcSend});
  const Psn first = script.first_psn();
  script.SetWord(0, kNumber);
  EXPECT_EQ(script.Post(Script::Request(1, SendOpcode::kAtomicWrite), 0, 8), Status::kOk);
  SendWorkRequest flush = Script::Request(2, SendOpcode::kFlush);
  flush.placement = Placement::kGlobal;
  flush.flush_length = 8;
  EXPECT_EQ(script.Post(flush, 0, 0), Status::kOk);
  script.ExpectSent(
      AtomicWrite(first, Script::kPeerAddress, Script::kPeerRkey, kNumber).To(Script::kPeerSrqn));
  script.ExpectSent(
      Flush(first + 1, Script::kPeerAddress, Script::kPeerRkey, 8).To(Script::kPeerSrqn));
  script.Inject(ReadResponse(Position::kOnly, first));
  script.Inject(ReadResponse(Position::kOnly, first + 1));
  script.ExpectCompletion(1);
  script.ExpectCompletion(2);
}

TEST(PlacementServicesTest, XrcTargetExecutesAtomicWriteAndFlush) {
  Script script({.type = QpType::kXrcReceive});
  const Psn first = script.peers_first_psn();
  script.Inject(AtomicWrite(first, Script::Address(kAt), script.rkey(), kNumber));
  script.Inject(Flush(first + 1, Script::Address(kAt), script.rkey(), 8));
  script.ExpectSent(ReadResponse(Position::kOnly, first).Msn(1));
  script.ExpectSent(ReadResponse(Position::kOnly, first + 1).Msn(2));
  EXPECT_EQ(script.Word(kAt), kNumber);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
