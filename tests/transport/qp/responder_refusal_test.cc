// Requests that must be refused: the NAK, the state, the completions, and memory left alone
// (IBA 9.7.5.2.2).

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

class ResponderRefusalTest : public testing::Test {
 protected:
  ResponderRefusalTest() { Reset({}); }

  void Reset(const Script::Options& options) {
    script_ = std::make_unique<Script>(options);
    script_->PostReceive(1, 32'768, 300);
    script_->PostReceive(2, 33'792, 300);
  }

  // The packet is refused with `code`, and an event tells the application (IBA C9-222.1.1).
  void ExpectRefused(const PacketSpec& packet, NakCode code,
                     EventType event = EventType::kQpAccessError) {
    ExpectTheEnd(packet, code, CompletionStatus::kFlushed);
    script_->ExpectEvent(event);
    script_->ExpectNoEvent();
  }

  // The same for a message that has a receive request: its completion fails, and there is no event.
  void ExpectReceiveFailed(const PacketSpec& packet, NakCode code, CompletionStatus status) {
    ExpectTheEnd(packet, code, status);
    script_->ExpectNoEvent();
  }

  // The receives are flushed, memory is unchanged, and later packets are ignored.
  void ExpectTheEnd(const PacketSpec& packet, NakCode code, CompletionStatus first_receive) {
    const auto before = script_->Bytes(0, 32'768);
    script_->Inject(packet);
    script_->ExpectSent(Nak(packet.psn, code));
    script_->ExpectNothingSent();
    script_->ExpectState(QpState::kError);
    script_->ExpectCompletion(1, first_receive);
    script_->ExpectCompletion(2, CompletionStatus::kFlushed);
    script_->ExpectNoCompletion();
    EXPECT_EQ(script_->Bytes(0, 32'768), before) << "memory was touched";
    // rxe once executed packets to a queue pair in ERR, again and again.
    script_->Inject(packet);
    script_->ExpectNothingSent();
    script_->ExpectNoCompletion();
  }

  PacketSpec WriteAt(uint64_t offset, RKey rkey, uint32_t length) const {
    return Write(Position::kOnly, first(), Script::Address(offset), rkey, length)
        .With(Pattern(length));
  }
  Psn first() const { return script_->peers_first_psn(); }
  RKey rkey() const { return script_->rkey(); }

  std::unique_ptr<Script> script_;
};

constexpr uint64_t kEnd = Script::kMemoryBytes;

// Two ends with different path MTUs. mlx5 reports it where the data was to go, not only to the
// sender (IBA C9-92).
TEST_F(ResponderRefusalTest, WrongLengthEndsTheReceiveItWouldHaveTaken) {
  const auto expect_wrong_length = [&](const PacketSpec& packet) {
    SCOPED_TRACE(packet.payload.size());
    ExpectReceiveFailed(packet, NakCode::kInvalidRequest, CompletionStatus::kLocalLengthError);
    Reset({});
  };
  expect_wrong_length(Send(Position::kFirst, first()).With(Pattern(255)));
  expect_wrong_length(Send(Position::kFirst, first()).With(Pattern(257)));
  expect_wrong_length(Send(Position::kOnly, first()).With(Pattern(257)));
  expect_wrong_length(WriteAt(0, rkey(), 257).Immediate(7));
  // Another length than the RETH announces.
  expect_wrong_length(
      Write(Position::kOnly, first(), Script::Address(0), rkey(), 9).With(Pattern(8)).Immediate(7));
  script_->Inject(Send(Position::kFirst, first()).With(Pattern(256)));
  expect_wrong_length(Send(Position::kLast, first() + 1));
}

// A WRITE without immediate has no receive request.
TEST_F(ResponderRefusalTest, WrongLengthOfAWriteEndsNoReceive) {
  ExpectRefused(WriteAt(0, rkey(), 257), NakCode::kInvalidRequest);
}

// IBA 9.7.4.1.5.
TEST_F(ResponderRefusalTest, WrongKey) {
  for (const uint32_t flip : {1u, 0x80u, 0x100u, 0x8000'0000u, 0xffff'ffffu}) {
    Reset({});
    ExpectRefused(WriteAt(0, RKey{rkey().value ^ flip}, 8), NakCode::kRemoteAccessError);
    Reset({});
    ExpectRefused(Read(first(), Script::Address(0), RKey{rkey().value ^ flip}, 8),
                  NakCode::kRemoteAccessError);
    Reset({});
    ExpectRefused(FetchAdd(first(), Script::Address(0), RKey{rkey().value ^ flip}, 1),
                  NakCode::kRemoteAccessError);
  }
}

// rxe: iova + length overflowed, so that the whole address space was in range.
// IBA 9.7.4.1.5.
TEST_F(ResponderRefusalTest, OutOfRange) {
  struct Range {
    uint64_t address;
    uint32_t length;
  };
  for (const Range range :
       {Range{Script::Address(kEnd), 1}, Range{Script::Address(kEnd - 7), 8},
        Range{Script::Address(0) - 1, 8}, Range{0, 8}, Range{~uint64_t{0} - 3, 8},
        Range{~uint64_t{0}, 1}, Range{Script::Address(0), Script::kMemoryBytes + 1},
        Range{Script::Address(8), 0x8000'0000}, Range{Script::Address(0), 0x7fff'ffff}}) {
    SCOPED_TRACE(std::to_string(range.address) + " + " + std::to_string(range.length));
    Reset({});
    ExpectRefused(Read(first(), range.address, rkey(), range.length), NakCode::kRemoteAccessError);
    Reset({});
    const bool is_long = range.length > 256;
    ExpectRefused(Write(is_long ? Position::kFirst : Position::kOnly, first(), range.address,
                        rkey(), range.length)
                      .With(Pattern(is_long ? 256 : range.length)),
                  NakCode::kRemoteAccessError);
    if (range.address % 8 != 0 || range.length < 8) continue;
    if (range.address == Script::Address(0) || range.address == Script::Address(8)) continue;
    Reset({});
    ExpectRefused(FetchAdd(first(), range.address, rkey(), 1), NakCode::kRemoteAccessError);
  }
}

// IBA 9.7.4.1.4.
TEST_F(ResponderRefusalTest, QueuePairWithoutAccess) {
  const uint32_t all =
      AccessFlags::kRemoteWrite | AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
  Reset({.qp_access = AccessFlags(all & ~AccessFlags::kRemoteWrite)});
  ExpectRefused(WriteAt(0, rkey(), 8), NakCode::kInvalidRequest, EventType::kQpRequestError);
  Reset({.qp_access = AccessFlags(all & ~AccessFlags::kRemoteRead)});
  ExpectRefused(Read(first(), Script::Address(0), rkey(), 8), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
  Reset({.qp_access = AccessFlags(all & ~AccessFlags::kRemoteAtomic)});
  ExpectRefused(CompareSwap(first(), Script::Address(0), rkey(), 0, 1), NakCode::kInvalidRequest,
                EventType::kQpRequestError);
}

TEST_F(ResponderRefusalTest, RegionWithoutAccess) {
  const uint32_t all = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                       AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
  const auto register_without = [&](uint32_t access) {
    Reset({});
    const auto key = script_->endpoint().memory().Register(
        {Script::kPd, Script::kIova, script_->memory(), 4'096, AccessFlags(all & ~access)});
    return RKey{key->value};
  };
  RKey key = register_without(AccessFlags::kRemoteWrite);
  ExpectRefused(WriteAt(0, key, 8), NakCode::kRemoteAccessError);
  key = register_without(AccessFlags::kRemoteRead);
  ExpectRefused(Read(first(), Script::Address(0), key, 8), NakCode::kRemoteAccessError);
  key = register_without(AccessFlags::kRemoteAtomic);
  ExpectRefused(FetchAdd(first(), Script::Address(0), key, 1), NakCode::kRemoteAccessError);
}

TEST_F(ResponderRefusalTest, RegionOfAnotherProtectionDomain) {
  const auto key = script_->endpoint().memory().Register(
      {PdId{Script::kPd.value + 1}, Script::kIova, script_->memory(), 4'096,
       AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite)});
  ExpectRefused(WriteAt(0, RKey{key->value}, 8), NakCode::kRemoteAccessError);
}

TEST_F(ResponderRefusalTest, DeregisteredRegion) {
  const auto key = script_->endpoint().memory().Register(
      {Script::kPd, Script::kIova, script_->memory(), 4'096,
       AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite)});
  EXPECT_EQ(script_->endpoint().memory().Deregister(*key), Status::kOk);
  ExpectRefused(WriteAt(0, RKey{key->value}, 8), NakCode::kRemoteAccessError);
}

// IBA 9.4.5.
// IBA C9-94: no message has more than 2^31 bytes, whatever memory there may be.
TEST_F(ResponderRefusalTest, LongerThanAMessageMayBe) {
  for (const uint32_t length : {0x8000'0001u, 0xffff'ffffu}) {
    Reset({});
    ExpectRefused(Read(first(), Script::Address(0), rkey(), length), NakCode::kInvalidRequest);
    Reset({});
    ExpectRefused(
        Write(Position::kFirst, first(), Script::Address(0), rkey(), length).With(Pattern(256)),
        NakCode::kInvalidRequest);
  }
}

TEST_F(ResponderRefusalTest, MisalignedAtomic) {
  for (uint64_t offset = 1; offset < 8; ++offset) {
    Reset({});
    ExpectRefused(FetchAdd(first(), Script::Address(offset), rkey(), 1), NakCode::kInvalidRequest);
    Reset({});
    ExpectRefused(CompareSwap(first(), Script::Address(offset), rkey(), 0, 1),
                  NakCode::kInvalidRequest);
  }
}

// IBA C9-222.1.1: the receive request takes the error. Only its total length counts, wherever the
// message exceeds it.
TEST_F(ResponderRefusalTest, MessageLongerThanTheReceive) {
  script_->Inject(Send(Position::kFirst, first()).With(Pattern(256)));
  PacketSpec last = Send(Position::kLast, first() + 1).With(Pattern(45));
  ExpectReceiveFailed(last, NakCode::kInvalidRequest, CompletionStatus::kLocalLengthError);

  Reset({.mtu = Mtu::k512});
  ExpectReceiveFailed(Send(Position::kOnly, first()).With(Pattern(301)), NakCode::kInvalidRequest,
                      CompletionStatus::kLocalLengthError);

  Reset({.mtu = Mtu::k512});
  script_->Inject(Send(Position::kOnly, first()).With(Pattern(300)));
  script_->ExpectSent(Ack(first()));
  script_->ExpectCompletion(1);
}

TEST_F(ResponderRefusalTest, WriteThatBringsMoreOrLessThanItsReth) {
  // More, in the only packet; in the last; in the middle.
  ExpectRefused(Write(Position::kOnly, first(), Script::Address(0), rkey(), 7).With(Pattern(8)),
                NakCode::kInvalidRequest);
  Reset({});
  ExpectRefused(Write(Position::kOnly, first(), Script::Address(0), rkey(), 9).With(Pattern(8)),
                NakCode::kInvalidRequest);
  for (const uint32_t length : {256u + 9, 256u + 11, 3 * 256u}) {
    Reset({});
    script_->Inject(Write(Position::kFirst, first(), Script::Address(40'000), rkey(), length)
                        .With(Pattern(256)));
    ExpectRefused(Write(Position::kLast, first() + 1).With(Pattern(10)), NakCode::kInvalidRequest);
  }
  Reset({});
  script_->Inject(
      Write(Position::kFirst, first(), Script::Address(40'000), rkey(), 512).With(Pattern(256)));
  ExpectRefused(Write(Position::kMiddle, first() + 1).With(Pattern(256)), NakCode::kInvalidRequest);
}

// IBA 9.4.4: rxe recycles resources instead, and so loses atomics.
TEST_F(ResponderRefusalTest, MoreReadsThanResponderResources) {
  Reset({.max_dest_read_atomic = 0});
  ExpectRefused(Read(first(), Script::Address(0), rkey(), 8), NakCode::kInvalidRequest);
  Reset({.max_dest_read_atomic = 0});
  ExpectRefused(FetchAdd(first(), Script::Address(0), rkey(), 8), NakCode::kInvalidRequest);
}

// IBA 9.9.3.1 class J: the data has arrived. The completion informs our application; the peer gets
// no response and finds out by its timeout.
TEST_F(ResponderRefusalTest, InvalidateOfAKeyThatIsNoWindow) {
  for (const RKey key : {rkey(), RKey{0}, RKey{0xffff'ffff}}) {
    Reset({});
    script_->Inject(Send(Position::kOnly, first()).With("x").Invalidate(key));
    script_->ExpectNothingSent();
    script_->ExpectState(QpState::kError);
    const auto completion = script_->ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
    EXPECT_EQ(completion.vendor_error, VendorError::kInvalidateKey);
    script_->ExpectCompletion(2, CompletionStatus::kFlushed);
    script_->ExpectNoEvent();
    EXPECT_EQ(*script_->memory(32'768), 'x');
  }
}

// IBA C9-88: a length of zero touches no memory, so its key is not checked.
TEST_F(ResponderRefusalTest, ZeroLengthNeedsNoKey) {
  script_->Inject(Write(Position::kOnly, first(), 0xdead'beef, RKey{0x1234'5678}, 0));
  script_->ExpectSent(Ack(first()));
  script_->Inject(Read(first() + 1, ~uint64_t{0}, RKey{0x1234'5678}, 0));
  script_->ExpectSent(ReadResponse(Position::kOnly, first() + 1));
  script_->ExpectState(QpState::kReadyToSend);
}

// A receive whose memory is gone is our fault, not the peer's (IBA 9.9.3.1 class A).
TEST_F(ResponderRefusalTest, ReceiveIntoMemoryThatIsGone) {
  EXPECT_EQ(script_->endpoint().memory().Deregister(script_->lkey()), Status::kOk);
  script_->Inject(Send(Position::kOnly, first()).With("x"));
  script_->ExpectSent(Nak(first(), NakCode::kRemoteOperationalError));
  script_->ExpectState(QpState::kError);
  script_->ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script_->ExpectCompletion(2, CompletionStatus::kFlushed);
}

// The iova of the region is aligned and its memory is not: an address that is aligned for the peer
// is misaligned here, where a locked operation would not be atomic.
TEST_F(ResponderRefusalTest, AnAtomicOnMemoryThatIsNotAligned) {
  const auto key = script_->endpoint().memory().Register(
      {Script::kPd, 0x8000, script_->memory(4), 64,
       AccessFlags(AccessFlags::kLocalWrite | AccessFlags::kRemoteAtomic)});
  ExpectRefused(FetchAdd(first(), 0x8000, RKey{key->value}, 1), NakCode::kInvalidRequest);
}

// The requests before the refused one were carried out, and the NAK acknowledges them.
TEST_F(ResponderRefusalTest, NakAcknowledgesEarlierRequests) {
  script_->Inject(Send(Position::kOnly, first()).With("good").AckRequest(false));
  script_->ExpectCompletion(1);
  script_->Inject(Write(Position::kOnly, first() + 1, 0, RKey{}, 1).With("x"));
  script_->ExpectSent(Nak(first() + 1, NakCode::kRemoteAccessError).Msn(1));
  script_->ExpectCompletion(2, CompletionStatus::kFlushed);
}

// A SEND that begins before the RNR NAK for its PSN could be sent is executed: that NAK would make
// the peer wait and send it again. An ACK, which its packet did not ask for, does no harm.
TEST(RnrNakTest, WithdrawnByTheRequestThatFindsAReceiveAfterAll) {
  Script script;
  const PacketSpec first = Send(Position::kFirst, script.peers_first_psn()).With(Pattern(256));
  script.HoldTransmit();
  script.ExpectDropped(DropReason::kReceiverNotReady, first);
  script.PostReceive(1, 0, 1'000);
  script.Inject(first);
  script.ReleaseTransmit();
  script.ExpectSent(Ack(first.psn));
  EXPECT_EQ(script.counters().rnr_naks_sent, 0u);
}

// With or without a shared receive queue, the receive request that was to complete fails.
TEST(RefusedImmediateTest, TheReceiveEndsInError) {
  for (const bool shared : {false, true}) {
    Script script({.shared_receive_queue = shared});
    script.PostReceive(1, 0, 64);
    script.Inject(Write(Position::kOnly, script.peers_first_psn(), Script::Address(0), RKey{1}, 8)
                      .With(Pattern(8))
                      .Immediate(7));
    script.ExpectSent(Nak(script.peers_first_psn(), NakCode::kRemoteAccessError));
    script.ExpectCompletion(1, CompletionStatus::kLocalAccessError);
    if (shared) script.ExpectEvent(EventType::kLastWqeReached);
    script.ExpectNoEvent();
  }
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
