// FLUSH and ATOMIC WRITE (annex A19) at the responder: which requests are refused, and how a
// duplicate is answered.

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
  // A key to the memory of the script, with `access` alone.
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

// IBA oA19-15: another request may have written there since.
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

// However many requests followed: unlike an atomic, it needs no remembered result.
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
TEST_F(AtomicWriteTest, ResponsesKeepTheOrderOfRequests) {
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

TEST_F(AtomicWriteTest, ResponseAcknowledgesEarlierRequests) {
  script_.HoldTransmit();
  script_.Inject(Write(Position::kOnly, first_).AckRequest());
  script_.Inject(WriteAt(first_ + 1, kNumber));
  script_.ReleaseTransmit();
  script_.ExpectSent(EmptyResponse(first_ + 1).Msn(2));
  script_.ExpectNothingSent();
}

// The peer will ask again.
TEST_F(AtomicWriteTest, ADuplicateThatThereIsNoRoomForIsNotAnswered) {
  for (uint32_t i = 0; i < 9; ++i) script_.Inject(WriteAt(first_ + i, i));
  script_.TakeSent();
  script_.HoldTransmit();
  for (uint32_t i = 0; i < 8; ++i) {  // twice the resources
    script_.ExpectDropped(DropReason::kDuplicateRequest, WriteAt(first_ + i, i));
  }
  script_.ExpectDropped(DropReason::kDuplicateNotHeld, WriteAt(first_ + 8, 8));
  script_.ReleaseTransmit();
  for (uint32_t i = 0; i < 8; ++i) script_.ExpectSent(EmptyResponse(first_ + i));
  script_.ExpectNothingSent();
}

// IBA A19.4.2.
TEST_F(AtomicWriteTest, AMisalignedAddressIsRefused) {
  ExpectRefused(WriteAt(first_, kNumber, kAt + 4), NakCode::kInvalidRequest);
}

TEST_F(AtomicWriteTest, AMisalignedAddressIsRefusedBeforeItsKey) {
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt + 4), RKey{1}, kNumber),
                NakCode::kInvalidRequest);
}

TEST_F(AtomicWriteTest, MemoryThatIsMisalignedHereIsRefused) {
  const RKey key = Key(AccessFlags::kRemoteWrite | AccessFlags::kLocalWrite, 8'192, Script::kPd, 4);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt), key, kNumber), NakCode::kInvalidRequest);
}

TEST_F(AtomicWriteTest, AMisalignedAddressOfAlignedMemoryIsRefused) {
  const RKey key = Key(AccessFlags::kRemoteWrite | AccessFlags::kLocalWrite, 8'192, Script::kPd, 4);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt + 4), key, kNumber),
                NakCode::kInvalidRequest);
}

// IBA oA19-28.
TEST_F(AtomicWriteTest, KeyWithoutTheAccessGetsARemoteAccessErrorNak) {
  const RKey key = Key(AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic);
  ExpectRefused(AtomicWrite(first_, Script::Address(kAt), key, kNumber),
                NakCode::kRemoteAccessError);
}

// IBA oA19-28.
TEST_F(AtomicWriteTest, RangeThatEndsTooEarlyGetsARemoteAccessErrorNak) {
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

// IBA 9.4.4: they take responder resources, like READs.
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
TEST(PlacementResourcesTest, RequestBeyondTheQueuePairsAccessGetsInvalidRequestNak) {
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

// IBA A19.4.1.2: a FLUSH of a region ignores address and length.
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

// A response that waits already is sent only once.
TEST_F(FlushRequestTest, DuplicateOfAWaitingFlushIsAnsweredOnce) {
  script_.HoldTransmit();
  script_.Inject(FlushOf(Placement::kGlobal));
  script_.ExpectDropped(DropReason::kDuplicateRequest, FlushOf(Placement::kGlobal));
  script_.ReleaseTransmit();
  script_.ExpectSent(EmptyResponse(first_));
  script_.ExpectNothingSent();
}

// IBA A19.4.1.1: a host loses its memory with its power, so no region has the access, whatever else
// the request asks for.
TEST(FlushForPersistenceTest, IsAnAccessErrorWhereTheQueuePairAllowsIt) {
  constexpr uint32_t kFlushPersistent = 1 << 9;  // of ibv_access_flags
  constexpr uint32_t kBoth = AccessFlags::kFlushGlobal | kFlushPersistent;
  for (const auto selectivity : {Selectivity::kRange, Selectivity::kRegion}) {
    for (const uint8_t others : {uint8_t{0}, Placement::kGlobal}) {
      Script script({.qp_access = AccessFlags(kBoth)});
      PacketSpec packet = Flush(script.peers_first_psn(), Script::Address(kAt), script.rkey(), 64);
      packet.feth = {static_cast<uint8_t>(Placement::kPersistent | others), selectivity};
      script.ExpectDropped(DropReason::kRefused, packet);
      script.ExpectSent(Nak(packet.psn, NakCode::kRemoteAccessError));
      script.ExpectEvent(EventType::kQpAccessError);
      script.ExpectState(QpState::kError);
    }
  }
}

TEST_F(FlushRequestTest, PersistenceBeyondTheQueuePairsAccessIsAnInvalidRequest) {
  ExpectRefused(FlushOf(Placement::kPersistent), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, PersistenceBesideVisibilityNeedsTheAccessOfBoth) {
  ExpectRefused(FlushOf(Placement::kGlobal | Placement::kPersistent), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, APlacementTypeThatIsNotDefinedIsRefused) {
  ExpectRefused(FlushOf(Placement::kGlobal | 1 << 2), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(FlushRequestTest, FlushWithoutAPlacementTypeIsRefused) {
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

TEST_F(FlushRequestTest, TheLongestMessageBeyondTheRegionIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.dma_length = 1u << 31;
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, ARangeBeyondTheRegionIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.dma_length = Script::kMemoryBytes;
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, KeyWithoutTheAccessGetsARemoteAccessErrorNak) {
  constexpr uint32_t kOthers = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                               AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.rkey = Key(kOthers);
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, RegionWithoutTheAccessGetsARemoteAccessErrorNak) {
  PacketSpec packet = FlushOf(Placement::kGlobal, Selectivity::kRegion);
  packet.reth.rkey = Key(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite);
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

TEST_F(FlushRequestTest, OfARegionOfAnotherProtectionDomainIsAnAccessError) {
  PacketSpec packet = FlushOf(Placement::kGlobal, Selectivity::kRegion);
  packet.reth.rkey = Key(AccessFlags::kFlushGlobal, 64, PdId{Script::kPd.value + 1});
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

// As with rdma_rxe: the window's access counts, and its range unless the FLUSH is of all of it.
TEST_F(FlushRequestTest, GoesThroughAWindow) {
  const RKey window = *script_.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType2);
  SendWorkRequest bind = BindRequest(script_, 1, window, kAt, 64);
  bind.window.access = AccessFlags(AccessFlags::kFlushGlobal);
  EXPECT_EQ(script_.Post(bind, 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.rkey = NextKey(window);
  script_.Inject(packet);
  script_.ExpectSent(EmptyResponse(first_));
  packet.feth.selectivity = Selectivity::kRegion;
  packet.psn = first_ + 1;
  packet.reth.virtual_address = packet.reth.dma_length = 0;
  script_.Inject(packet);
  script_.ExpectSent(EmptyResponse(first_ + 1));
  packet = FlushOf(Placement::kGlobal);
  packet.reth.rkey = NextKey(window);
  packet.psn = first_ + 2;
  ++packet.reth.dma_length;
  script_.ExpectDropped(DropReason::kRefused, packet);
  script_.ExpectSent(Nak(first_ + 2, NakCode::kRemoteAccessError));
}

TEST_F(FlushRequestTest, WindowWithoutTheAccessGetsARemoteAccessErrorNak) {
  const RKey window = *script_.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType2);
  EXPECT_EQ(script_.Post(BindRequest(script_, 1, window, kAt, 64), 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  PacketSpec packet = FlushOf(Placement::kGlobal);
  packet.reth.rkey = NextKey(window);
  ExpectRefused(packet, NakCode::kRemoteAccessError);
}

// IBA oA19-2.
TEST_F(FlushRequestTest, WithAPayloadIsDropped) {
  script_.ExpectDropped(DropReason::kBadPadding, FlushOf(Placement::kGlobal).With("data"));
  script_.ExpectNothingSent();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
