// FLUSH and ATOMIC WRITE (annex A19): what both sides send, what is refused, and what becomes of a
// request that comes again or of a response that is lost.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/windows.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint64_t kAt = 4'096;
constexpr uint64_t kNumber = 0x1122'3344'5566'7788;

class PlacementResponderTest : public testing::Test {
 protected:
  PacketSpec WriteAt(Psn psn, uint64_t number, uint64_t offset = kAt) const {
    return AtomicWrite(psn, Script::Address(offset), script_.rkey(), number);
  }
  PacketSpec FlushOf(uint8_t placement, Selectivity selectivity = Selectivity::kRange) const {
    PacketSpec spec = Flush(first_, Script::Address(kAt), script_.rkey(), 64);
    spec.feth = {placement, selectivity};
    return spec;
  }
  static PacketSpec EmptyResponse(Psn psn) { return ReadResponse(Position::kOnly, psn); }
  // A key to the memory of the script, with these rights alone.
  RKey Key(uint32_t access, uint64_t length = Script::kMemoryBytes, PdId pd = Script::kPd,
           uint64_t skipped = 0) {
    const auto key = script_.endpoint().memory().Register(
        {pd, Script::kIova, script_.memory(skipped), length, AccessFlags(access)});
    return RKey{key->value};
  }
  void ExpectRefused(const PacketSpec& packet, NakCode code,
                     EventType event = EventType::kQpAccessError) {
    script_.SetWord(kAt, 40);
    script_.ExpectDropped(DropReason::kRefused, packet);
    script_.ExpectSent(Nak(first_, code));
    script_.ExpectEvent(event);
    script_.ExpectState(QpState::kError);
    EXPECT_EQ(script_.Word(kAt), 40u);
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
};

using AtomicWriteTest = PlacementResponderTest;

// IBA A19.4.2: the eight bytes as they lie in the packet.
TEST_F(AtomicWriteTest, WritesAndIsAnsweredByAReadResponseOfNoBytes) {
  EXPECT_EQ(script_.Inject(WriteAt(first_, kNumber)), DropReason::kNone);
  script_.ExpectSent(EmptyResponse(first_).Msn(1));
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.Word(kAt), kNumber);
}

// IBA oA19-15: somebody may have written since.
TEST_F(AtomicWriteTest, ADuplicateIsAnsweredAndNotWrittenAgain) {
  script_.Inject(WriteAt(first_, kNumber));
  script_.Inject(WriteAt(first_ + 1, kNumber + 1));
  script_.TakeSent();
  for (int i = 0; i < 2; ++i) {
    script_.ExpectDropped(DropReason::kDuplicateRequest, WriteAt(first_, kNumber));
    script_.ExpectSent(EmptyResponse(first_).Msn(2));
    EXPECT_EQ(script_.Word(kAt), kNumber + 1);
  }
}

// However many there were since: nothing has to be remembered, as of an atomic.
TEST_F(AtomicWriteTest, ADuplicateIsAnsweredWhenMoreThanTheResourcesFollowedIt) {
  for (uint32_t i = 0; i < 6; ++i) script_.Inject(WriteAt(first_ + i, i));  // 4 resources
  script_.TakeSent();
  script_.ExpectDropped(DropReason::kDuplicateRequest, WriteAt(first_, 0));
  script_.ExpectSent(EmptyResponse(first_).Msn(6));
  EXPECT_EQ(script_.Word(kAt), 5u);
}

TEST_F(AtomicWriteTest, ADuplicateWhoseKeyIsGoneIsAnswered) {
  const RKey key = Key(AccessFlags::kRemoteWrite | AccessFlags::kLocalWrite);
  const PacketSpec request = AtomicWrite(first_, Script::Address(kAt), key, kNumber);
  script_.Inject(request);
  script_.TakeSent();
  EXPECT_EQ(script_.endpoint().memory().Deregister(LKey{key.value}), Status::kOk);
  script_.ExpectDropped(DropReason::kDuplicateRequest, request);
  script_.ExpectSent(EmptyResponse(first_));
  script_.ExpectState(QpState::kReadyToSend);
}

// Responses go in the order of the requests, and they acknowledge what came before (IBA 9.7.5.1.2).
TEST_F(AtomicWriteTest, TakesItsTurnAmongOthers) {
  script_.SetWord(kAt, 1);
  script_.HoldTransmit();
  script_.Inject(Read(first_, Script::Address(kAt), script_.rkey(), 8));
  script_.Inject(Write(Position::kOnly, first_ + 1));
  script_.Inject(WriteAt(first_ + 2, 2, kAt + 8));
  script_.Inject(FetchAdd(first_ + 3, Script::Address(kAt + 8), script_.rkey(), 5));
  script_.Inject(Flush(first_ + 4, Script::Address(kAt), script_.rkey(), 16));
  script_.ReleaseTransmit();
  script_.ExpectSent(ReadResponse(Position::kOnly, first_).With(script_.Bytes(kAt, 8)).Msn(1));
  script_.ExpectSent(EmptyResponse(first_ + 2).Msn(3));
  script_.ExpectSent(AtomicAck(first_ + 3, 2).Msn(4));
  script_.ExpectSent(EmptyResponse(first_ + 4).Msn(5));
  EXPECT_EQ(script_.Word(kAt + 8), 7u);
}

// IBA A19.4.2.
TEST_F(AtomicWriteTest, AMisalignedAddressIsRefused) {
  ExpectRefused(WriteAt(first_, kNumber, kAt + 4), NakCode::kInvalidRequest);
}

TEST_F(AtomicWriteTest, MemoryThatIsMisalignedHereIsRefused) {
  const RKey key = Key(AccessFlags::kRemoteWrite | AccessFlags::kLocalWrite, 8'192, Script::kPd, 4);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt), key, kNumber), NakCode::kInvalidRequest);
}

// IBA oA19-28.
TEST_F(AtomicWriteTest, AKeyThatDoesNotPermitItIsAnAccessError) {
  const RKey key = Key(AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt), key, kNumber),
                NakCode::kRemoteAccessError);
}

// IBA oA19-28.
TEST_F(AtomicWriteTest, ARangeThatEndsBeforeItIsAnAccessError) {
  const RKey key = Key(AccessFlags::kRemoteWrite | AccessFlags::kLocalWrite, kAt + 7);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt), key, kNumber),
                NakCode::kRemoteAccessError);
}

TEST_F(AtomicWriteTest, OtherLengthsAreRefused) {
  for (const uint32_t length : {0u, 4u, 7u, 9u, 16u}) {
    Script script;
    PacketSpec packet =
        AtomicWrite(script.peers_first_psn(), Script::Address(kAt), script.rkey(), 1);
    packet.payload.resize(length);
    packet.reth.dma_length = length;
    script.ExpectDropped(DropReason::kRefused, packet);
    script.ExpectSent(Nak(packet.psn, NakCode::kInvalidRequest));
  }
  for (const auto& [payload, announced] : {std::pair(8u, 9u), std::pair(9u, 8u)}) {
    Script script;
    PacketSpec packet =
        AtomicWrite(script.peers_first_psn(), Script::Address(kAt), script.rkey(), 1);
    packet.payload.resize(payload);
    packet.reth.dma_length = announced;
    script.ExpectDropped(DropReason::kRefused, packet);
    script.ExpectSent(Nak(packet.psn, NakCode::kInvalidRequest));
  }
}

// A window for writing is enough.
TEST_F(AtomicWriteTest, GoesThroughAWindow) {
  const RKey window = *script_.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType2);
  EXPECT_EQ(script_.Post(BindRequest(script_, 1, window, kAt, 64), 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  script_.Inject(AtomicWrite(first_, Script::Address(kAt), NextKey(window), kNumber));
  script_.ExpectSent(EmptyResponse(first_));
  EXPECT_EQ(script_.Word(kAt), kNumber);
}

// IBA 9.4.4: they take responder resources, as READs do.
TEST(PlacementResourcesTest, OneMoreThanMaxDestReadAtomicIsRefused) {
  for (const bool flushes : {false, true}) {
    Script script;
    const Psn first = script.peers_first_psn();
    const auto request = [&](uint32_t i) {
      return flushes ? Flush(first + i, Script::Address(kAt), script.rkey(), 8)
                     : AtomicWrite(first + i, Script::Address(kAt), script.rkey(), i);
    };
    script.HoldTransmit();
    for (uint32_t i = 0; i < 5; ++i) script.Inject(request(i));
    script.ReleaseTransmit();
    for (uint32_t i = 0; i < 4; ++i) {
      script.ExpectSent(ReadResponse(Position::kOnly, first + i).Msn(i + 1));
    }
    script.ExpectSent(Nak(first + 4, NakCode::kInvalidRequest));
    script.ExpectState(QpState::kError);
    EXPECT_EQ(script.Word(kAt), flushes ? 0u : 3u);
  }
}

// IBA 9.7.4.1.4.
TEST(PlacementResourcesTest, WhatTheQueuePairDoesNotAllowIsUnsupported) {
  constexpr uint32_t kAll = AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead |
                            AccessFlags::kRemoteAtomic | AccessFlags::kFlushGlobal;
  for (const bool flushes : {false, true}) {
    const uint32_t missing = flushes ? AccessFlags::kFlushGlobal : AccessFlags::kRemoteWrite;
    Script script({.qp_access = AccessFlags(kAll & ~missing)});
    const Psn first = script.peers_first_psn();
    script.ExpectDropped(DropReason::kRefused,
                         flushes ? Flush(first, Script::Address(kAt), script.rkey(), 8)
                                 : AtomicWrite(first, Script::Address(kAt), script.rkey(), 1));
    script.ExpectSent(Nak(first, NakCode::kInvalidRequest));
    script.ExpectEvent(EventType::kQpRequestError);
    EXPECT_EQ(script.Word(kAt), 0u);
  }
}

using FlushRequestTest = PlacementResponderTest;

// IBA A19.4.1.2.
TEST_F(FlushRequestTest, OfARangeIsAnsweredByAReadResponseOfNoBytes) {
  EXPECT_EQ(script_.Inject(FlushOf(Placement::kGlobal)), DropReason::kNone);
  script_.ExpectSent(EmptyResponse(first_).Msn(1));
  script_.ExpectNothingSent();
}

// IBA A19.4.1.2: of a region neither address nor length count.
TEST_F(FlushRequestTest, OfARegionNeedsTheKeyAlone) {
  PacketSpec packet = FlushOf(Placement::kGlobal, Selectivity::kRegion);
  packet.reth.virtual_address = 3;
  EXPECT_EQ(script_.Inject(packet), DropReason::kNone);
  script_.ExpectSent(EmptyResponse(first_));
}

TEST_F(FlushRequestTest, OfNoBytesWantsAValidKey) {
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.dma_length = 0;
  EXPECT_EQ(script_.Inject(packet), DropReason::kNone);
  script_.ExpectSent(EmptyResponse(first_));
  packet.psn = first_ + 1;
  packet.reth.rkey = RKey{1};
  script_.ExpectDropped(DropReason::kRefused, packet);
  script_.ExpectSent(Nak(first_ + 1, NakCode::kRemoteAccessError));
}

// IBA oA19-14.
TEST_F(FlushRequestTest, ADuplicateIsAnsweredAgain) {
  script_.Inject(FlushOf(Placement::kGlobal));
  script_.TakeSent();
  script_.ExpectDropped(DropReason::kDuplicateRequest, FlushOf(Placement::kGlobal));
  script_.ExpectSent(EmptyResponse(first_).Msn(1));
}

// What was to be sent anyway is sent once.
TEST_F(FlushRequestTest, ADuplicateOfOneThatWaitsForItsTurnIsAnsweredOnce) {
  script_.HoldTransmit();
  script_.Inject(FlushOf(Placement::kGlobal));
  script_.ExpectDropped(DropReason::kDuplicateRequest, FlushOf(Placement::kGlobal));
  script_.ReleaseTransmit();
  script_.ExpectSent(EmptyResponse(first_));
  script_.ExpectNothingSent();
}

// IBA A19.4.1.1: the memory of a host is gone with its power, whatever else is asked for.
TEST_F(FlushRequestTest, PersistenceIsNotPromised) {
  ExpectRefused(FlushOf(Placement::kPersistent), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, PersistenceBesideVisibilityIsNotPromised) {
  ExpectRefused(FlushOf(Placement::kGlobal | Placement::kPersistent), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, ForNothingIsRefused) {
  ExpectRefused(FlushOf(0), NakCode::kInvalidRequest, EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, ASelectivityThatIsNotDefinedIsRefused) {
  ExpectRefused(FlushOf(Placement::kGlobal, static_cast<Selectivity>(2)), NakCode::kInvalidRequest);
}

TEST_F(FlushRequestTest, MoreThanTheLongestMessageIsRefused) {
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.dma_length = (1u << 31) + 1;
  ExpectRefused(packet, NakCode::kInvalidRequest);
}

TEST_F(FlushRequestTest, ARangeBeyondTheRegionIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.dma_length = Script::kMemoryBytes;
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, AKeyThatDoesNotPermitItIsAnAccessError) {
  constexpr uint32_t kOthers = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                               AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.rkey = Key(kOthers);
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, OfARegionThatDoesNotPermitItIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal, Selectivity::kRegion);
  packet.reth.rkey = Key(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite);
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, OfARegionOfAnotherProtectionDomainIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal, Selectivity::kRegion);
  packet.reth.rkey = Key(AccessFlags::kFlushGlobal, 64, PdId{Script::kPd.value + 1});
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

// IBA oA19-2.
TEST_F(FlushRequestTest, WithAPayloadIsDropped) {
  script_.ExpectDropped(DropReason::kBadPadding, FlushOf(Placement::kGlobal).With("data"));
  script_.ExpectNothingSent();
}

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

TEST_F(PlacementRequesterTest, AFlushSaysWhatItIsOf) {
  PostFlush(1, 4'000);
  script_.ExpectSent(Flushed(0, 4'000));
  script_.Inject(Answer(0).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(1).opcode, CompletionOpcode::kFlush);

  SendWorkRequest region = FlushRequest(2, 0);
  region.placement = Placement::kGlobal | Placement::kPersistent;
  region.selectivity = Selectivity::kRegion;
  EXPECT_EQ(script_.Post(region, 0, 8), Status::kOk);  // its SGE is not looked at
  PacketSpec expected = Flushed(1, 0);
  expected.feth = {region.placement, region.selectivity};
  script_.ExpectSent(expected);
  script_.Inject(Answer(1).Msn(2));
  script_.ExpectCompletion(2);
}

TEST_F(PlacementRequesterTest, AFlushOfNothingThatIsDefinedIsNotPosted) {
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

// IBA 9.4.4: they count as READs do.
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
TEST_F(PlacementRequesterTest, AFenceWaitsForThem) {
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

// The response of the first is lost: that of the second implies it (IBA 9.7.5.1.2).
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
  // An ACK does not stand for them.
  script_.ExpectDropped(DropReason::kOutOfOrderResponse, Ack(first_ + 2));
  script_.Inject(Answer(0));
  script_.Inject(Answer(1));
  script_.Inject(Ack(first_ + 2));
  for (uint64_t i = 1; i < 4; ++i) script_.ExpectCompletion(i);
  EXPECT_EQ(script_.counters().implied_naks, 1u);
}

// IBA 9.9.2.4.1.
TEST_F(PlacementRequesterTest, SilenceSendsThemAgain) {
  script_.SetWord(0, kNumber);
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  script_.TakeSent();
  script_.Advance(Milliseconds(100));  // 67 ms
  script_.ExpectSent(Written(0, kNumber));
  script_.ExpectSent(Flushed(1, 8));
  script_.Inject(Answer(0));
  script_.Inject(Answer(1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  script_.ExpectNoDeadline();
}

TEST_F(PlacementRequesterTest, ANakEndsThem) {
  PostAtomicWrite(1, 0);
  PostFlush(2, 8);
  script_.TakeSent();
  script_.Inject(Answer(0));
  script_.ExpectCompletion(1);
  script_.Inject(Nak(first_ + 1, NakCode::kRemoteAccessError));
  EXPECT_EQ(script_.ExpectCompletion(2, CompletionStatus::kRemoteAccessError).opcode,
            CompletionOpcode::kFlush);
}

// Data, or the result of an atomic, is no answer to either.
TEST_F(PlacementRequesterTest, AnotherResponseIsABadOne) {
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

TEST_F(PlacementRequesterTest, AFirstResponseOfSeveralIsABadOne) {
  PostFlush(1, 8);
  script_.TakeSent();
  script_.ExpectDropped(DropReason::kMalformedResponse, ReadResponse(Position::kFirst, first_));
  script_.ExpectCompletion(1, CompletionStatus::kBadResponse);
}

// A number in memory that may not be read never goes out.
TEST_F(PlacementRequesterTest, AWrongLocalKeyIsAProtectionError) {
  SendWorkRequest request = Script::Request(1, SendOpcode::kAtomicWrite);
  const ScatterGatherEntry sge{Script::Address(0), 8, LKey{script_.lkey().value ^ 1}};
  request.sges = {&sge, 1};
  EXPECT_EQ(script_.qp().PostSend(request), Status::kOk);
  script_.ExpectNothingSent();
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
}

// IBA 11.4.1.1: operations of the reliable services.
TEST(PlacementServicesTest, UnreliableServicesDoNotHaveThem) {
  for (const QpType type : {QpType::kUnreliableConnection, QpType::kUnreliableDatagram}) {
    Script script({.type = type});
    SendWorkRequest request = Script::Request(1, SendOpcode::kAtomicWrite);
    EXPECT_EQ(script.Post(request, 0, 8), Status::kInvalidArgument);
    request.opcode = SendOpcode::kFlush;
    request.placement = Placement::kGlobal;
    EXPECT_EQ(script.Post(request, 0, 0), Status::kInvalidArgument);
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

TEST(PlacementServicesTest, AnXrcTargetCarriesThemOut) {
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
