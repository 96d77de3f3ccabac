// UC: a request is done when it is sent, nothing is answered, and a message that misses a packet is
// dropped whole.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

class UcTest : public testing::Test {
 protected:
  explicit UcTest(bool shared = false)
      : script_({.type = QpType::kUnreliableConnection, .shared_receive_queue = shared}) {}
  ~UcTest() override {
    script_.ExpectNothingSent();
    script_.ExpectNoEvent();
  }

  PacketSpec WriteOf(Position position, Psn psn, uint32_t length) const {
    return Write(position, psn, Script::Address(0), script_.rkey(), length);
  }

  Script script_;
  const Psn first_ = script_.first_psn();
  const Psn peers_ = script_.peers_first_psn();
};

// IBA 9.8.2.
TEST_F(UcTest, ARequestIsDoneWhenItsLastPacketIsOut) {
  script_.HoldTransmit();
  script_.PostSend(1, 0, 2 * kPart);
  script_.TransmitOne();
  script_.ExpectSent(Send(Position::kFirst, first_).With(script_.Bytes(0, kPart)));
  script_.ExpectNoCompletion();
  script_.TransmitOne();
  const PacketSpec last =
      script_.ExpectSent(Send(Position::kLast, first_ + 1).With(script_.Bytes(kPart, kPart)));
  EXPECT_FALSE(last.ack_request);
  script_.ExpectCompletion(1);
  script_.ExpectNoDeadline();
}

TEST_F(UcTest, PsnsGoOnFromMessageToMessage) {
  script_.PostWrite(1, 0, 3 * kPart);
  script_.PostSend(2, 0, 0);
  const auto sent = script_.TakeSent();
  ASSERT_EQ(sent.size(), 4u);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(sent[i].psn, first_ + i);
  EXPECT_EQ(sent[0].reth.dma_length, 3 * kPart);
  EXPECT_EQ(script_.qp().Query().sq_psn, first_ + 4);
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
}

TEST_F(UcTest, MessagesOfEveryKindAreReceivedInSilence) {
  for (uint64_t i = 1; i <= 3; ++i) script_.PostReceive(i, 4'096 + i * 1'024, 1'024);
  EXPECT_EQ(script_.Inject(Send(Position::kFirst, peers_).With(Pattern(kPart))), DropReason::kNone);
  EXPECT_EQ(script_.Inject(Send(Position::kLast, peers_ + 1).With("end").Immediate(7)),
            DropReason::kNone);
  const Completion send = script_.ExpectCompletion(1);
  EXPECT_EQ(send.opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(send.byte_length, kPart + 3);
  EXPECT_EQ(send.flags, Completion::kHasImmediate);
  EXPECT_EQ(send.immediate_or_rkey, 7u);
  EXPECT_EQ(send.source_qpn, Script::kPeerQpn);

  EXPECT_EQ(script_.Inject(WriteOf(Position::kFirst, peers_ + 2, kPart + 2).With(Pattern(kPart))),
            DropReason::kNone);
  EXPECT_EQ(script_.Inject(WriteOf(Position::kLast, peers_ + 3, 0).With("ab")), DropReason::kNone);
  script_.ExpectNoCompletion();
  EXPECT_EQ(script_.Bytes(0, kPart), Pattern(kPart));
  EXPECT_EQ(script_.Inject(WriteOf(Position::kOnly, peers_ + 4, 2).With("cd").Immediate(9)),
            DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(2).opcode, CompletionOpcode::kReceiveRdmaWithImmediate);
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_ + 5)), DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(3).byte_length, 0u);
}

// IBA 9.9.3.1 class D1: whichever packet is missing, the message is dropped whole and its receive
// request waits for the next message.
TEST_F(UcTest, AMessageThatMissesAPacketIsDroppedWhole) {
  for (uint32_t missing = 0; missing < 3; ++missing) {
    const Psn psn = peers_ + 4 * missing;
    script_.PostReceive(missing, 4'096, 1'024);
    constexpr Position kPositions[] = {Position::kFirst, Position::kMiddle, Position::kLast};
    for (uint32_t i = 0; i < 3; ++i) {
      if (i == missing) continue;
      const PacketSpec packet = Send(kPositions[i], psn + i).With(Pattern(kPart));
      if (i < missing) {
        EXPECT_EQ(script_.Inject(packet), DropReason::kNone);
      } else {
        script_.ExpectDropped(DropReason::kTornMessage, packet);
      }
    }
    script_.ExpectNoCompletion();
    EXPECT_EQ(script_.Inject(Send(Position::kOnly, psn + 3).With("next")), DropReason::kNone);
    EXPECT_EQ(script_.ExpectCompletion(missing).byte_length, 4u);
  }
}

TEST_F(UcTest, APacketThatBeginsAMessageEndsTheOneBefore) {
  script_.PostReceive(1, 4'096, 1'024);
  script_.Inject(Send(Position::kFirst, peers_).With(Pattern(kPart)));
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_ + 1).With("next")), DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, 4u);
  EXPECT_EQ(script_.Bytes(4'096, 4), (std::vector<uint8_t>{'n', 'e', 'x', 't'}));
}

TEST_F(UcTest, AMessageBeginsAtAnyPsn) {
  for (const uint32_t psn : {0u, 0x7f'ffffu, 0x80'0000u, 0xff'ffffu, 17u}) {
    script_.PostReceive(psn, 4'096, 16);
    EXPECT_EQ(script_.Inject(Send(Position::kOnly, Psn(psn))), DropReason::kNone);
    script_.ExpectCompletion(psn);
    EXPECT_EQ(script_.qp().Query().rq_psn, Psn(psn) + 1);
  }
}

// IBA 9.9.3.1 class D: dropped and counted, and the queue pair goes on.
TEST_F(UcTest, WithoutAReceiveRequestAMessageIsDropped) {
  script_.ExpectDropped(DropReason::kReceiverNotReady,
                        Send(Position::kFirst, peers_).With(Pattern(kPart)));
  script_.PostReceive(1, 4'096, 1'024);
  script_.ExpectDropped(DropReason::kTornMessage, Send(Position::kLast, peers_ + 1).With("late"));
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_ + 2)), DropReason::kNone);
  script_.ExpectCompletion(1);
}

TEST_F(UcTest, AWriteWithImmediateNeedsAReceiveRequestAtItsEnd) {
  script_.Inject(WriteOf(Position::kFirst, peers_, kPart + 1).With(Pattern(kPart)));
  script_.ExpectDropped(DropReason::kReceiverNotReady,
                        WriteOf(Position::kLast, peers_ + 1, 0).With("x").Immediate(1));
  script_.PostReceive(1, 4'096, 16);
  EXPECT_EQ(script_.Inject(WriteOf(Position::kOnly, peers_ + 2, 1).With("x").Immediate(1)),
            DropReason::kNone);
  script_.ExpectCompletion(1);
}

TEST_F(UcTest, AMessageThatIsTooLongIsDropped) {
  script_.PostReceive(1, 4'096, kPart);
  script_.Inject(Send(Position::kFirst, peers_).With(Pattern(kPart)));
  script_.ExpectDropped(DropReason::kMessageTooLong, Send(Position::kLast, peers_ + 1).With("x"));
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_ + 2).With(Pattern(kPart))),
            DropReason::kNone);
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, kPart);
}

TEST_F(UcTest, PacketsOfTheWrongLengthAreDropped) {
  script_.PostReceive(1, 4'096, 1'024);
  const auto drop = [&](Position position, size_t bytes) {
    script_.ExpectDropped(DropReason::kRefused, Send(position, peers_).With(Pattern(bytes)));
  };
  drop(Position::kFirst, kPart - 1);
  drop(Position::kFirst, 0);
  drop(Position::kOnly, kPart + 1);
  script_.ExpectState(QpState::kReadyToSend);
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, peers_)), DropReason::kNone);
  script_.ExpectCompletion(1);
}

TEST_F(UcTest, AWriteThatMayNotBeIsDroppedWithoutATrace) {
  const auto before = script_.Bytes(0, 1'024);
  const PacketSpec right = WriteOf(Position::kOnly, peers_, 8);
  PacketSpec wrong = right.With(Pattern(8));
  wrong.reth.rkey = RKey{script_.rkey().value ^ 1};
  script_.ExpectDropped(DropReason::kRefused, wrong);
  wrong = right.With(Pattern(8));
  wrong.reth.virtual_address = Script::Address(Script::kMemoryBytes - 7);
  script_.ExpectDropped(DropReason::kRefused, wrong);
  wrong = right.With(Pattern(8));
  wrong.reth.dma_length = 9;
  script_.ExpectDropped(DropReason::kRefused, wrong);
  EXPECT_EQ(script_.Bytes(0, 1'024), before);
  script_.ExpectState(QpState::kReadyToSend);
  EXPECT_EQ(script_.Inject(right.With(Pattern(8))), DropReason::kNone);
  EXPECT_EQ(script_.Bytes(0, 8), Pattern(8));
}

TEST(UcAccessTest, AWriteNeedsTheAccessOfTheQueuePair) {
  Script script({.type = QpType::kUnreliableConnection, .qp_access = AccessFlags()});
  script.ExpectDropped(DropReason::kRefused, Write(Position::kOnly, script.peers_first_psn(),
                                                   Script::Address(0), script.rkey(), 1)
                                                 .With("x"));
  EXPECT_EQ(*script.memory(), 0);
  script.ExpectNoEvent();
}

// IBA 9.9.3.1 class A: our own memory is wrong, not the message.
TEST_F(UcTest, AReceiveRequestOfWrongMemoryEndsTheQueuePair) {
  script_.PostReceive(1, 4'096, 16);
  script_.PostReceive(2, 4'096, 16);
  EXPECT_EQ(script_.endpoint().memory().Deregister(script_.lkey()), Status::kOk);
  script_.Inject(Send(Position::kOnly, peers_).With("x"));
  script_.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
  script_.ExpectState(QpState::kError);
}

// UC has no responses, so its requester ignores them.
TEST_F(UcTest, AcksAndReadsAreDropped) {
  script_.PostSend(1, 0, 1);
  script_.TakeSent();
  script_.ExpectCompletion(1);
  script_.ExpectDropped(DropReason::kWrongService, Ack(first_).Of(Service::kReliableConnection));
  script_.ExpectDropped(DropReason::kWrongService,
                        Read(peers_, 0, {}, 0).Of(Service::kReliableConnection));
}

// IBA 9.9.3.1 class E: a request that a torn message took from the shared queue cannot return.
class UcSharedTest : public UcTest {
 protected:
  UcSharedTest() : UcTest(/*shared=*/true) {
    script_.PostReceive(1, 4'096, kPart + 8);
    script_.PostReceive(2, 8'192, kPart + 8);
    EXPECT_EQ(script_.Inject(Send(Position::kFirst, peers_).With(Pattern(kPart))),
              DropReason::kNone);
  }
  void ExpectNextIsReceived(Psn psn) {
    script_.ExpectState(QpState::kReadyToSend);
    EXPECT_EQ(script_.Inject(Send(Position::kOnly, psn).With("next")), DropReason::kNone);
    EXPECT_EQ(script_.ExpectCompletion(2).byte_length, 4u);
  }
};

TEST_F(UcSharedTest, ATornMessageCompletesItsReceiveRequestInError) {
  script_.ExpectDropped(DropReason::kTornMessage, Send(Position::kLast, peers_ + 2).With("x"));
  const Completion torn = script_.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(torn.vendor_error, VendorError::kMessageTorn);
  ExpectNextIsReceived(peers_ + 3);
}

TEST_F(UcSharedTest, TooLongMessageCompletesItsReceiveRequestInError) {
  script_.ExpectDropped(DropReason::kMessageTooLong,
                        Send(Position::kLast, peers_ + 1).With(Pattern(9)));
  const Completion failed = script_.ExpectCompletion(1, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(failed.vendor_error, VendorError::kReceiveTooSmall);
  ExpectNextIsReceived(peers_ + 2);
}

TEST_F(UcSharedTest, InvalidMessageCompletesItsReceiveRequestInError) {
  script_.ExpectDropped(DropReason::kRefused, Send(Position::kLast, peers_ + 1));
  const Completion failed = script_.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(failed.vendor_error, VendorError::kPeerBrokeRule);
  ExpectNextIsReceived(peers_ + 2);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
