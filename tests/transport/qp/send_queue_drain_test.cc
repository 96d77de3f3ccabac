// SQD: started messages are finished, the rest is held back, and the application gets an event.

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

using Mask = QpAttributeMask;

constexpr uint32_t kPart = 256;
constexpr uint8_t kTimeout = 8;
constexpr Duration kAckTimeout{int64_t{4'096} << kTimeout};
constexpr QpState kSqd = QpState::kSendQueueDrain;
constexpr QpState kRts = QpState::kReadyToSend;

class DrainTest : public testing::Test {
 protected:
  // Requests of a SEND of `parts` full packets.
  std::vector<PacketSpec> Parts(uint32_t parts) {
    std::vector<PacketSpec> specs;
    for (uint32_t i = 0; i < parts; ++i) {
      const Position position = i == 0           ? Position::kFirst
                                : i + 1 == parts ? Position::kLast
                                                 : Position::kMiddle;
      specs.push_back(Send(position, first_ + i).With(script_.Bytes(i * kPart, kPart)));
    }
    return specs;
  }
  // A SEND of three packets, one of them sent, and another SEND behind it; then SQD.
  void DrainInTheMiddle(bool notify) {
    std::ranges::copy(Pattern(3 * kPart), script_.memory());
    script_.HoldTransmit();
    script_.PostSend(1, 0, 3 * kPart);
    script_.PostSend(2, 0, 10);
    script_.TransmitOne();
    script_.ExpectSent(Parts(3)[0]);
    Drain(notify);
    script_.ReleaseTransmit();
  }
  void Drain(bool notify) {
    QpAttributes attributes;
    attributes.state = kSqd;
    attributes.enable_sqd_notify = notify;
    EXPECT_EQ(script_.qp().Modify(attributes, Mask::kState | Mask::kEnableSqdNotify), Status::kOk);
  }
  template <class Field>
  Status Set(uint32_t mask, Field QpAttributes::*field, std::type_identity_t<Field> value) {
    QpAttributes attributes;
    attributes.*field = value;
    return script_.qp().Modify(attributes, mask);
  }
  void ExpectDraining(bool draining) {
    EXPECT_EQ(script_.qp().Query().sq_draining, draining);
    script_.ExpectState(kSqd);
  }

  Script script_{{.timeout = kTimeout, .retry_count = 2, .rnr_retry = 2}};
  const Psn first_ = script_.first_psn();
  const Psn peers_ = script_.peers_first_psn();
};

// IBA 10.3.1.5.
TEST_F(DrainTest, TheMessageThatWasBegunIsFinishedAndTheNextIsNotBegun) {
  DrainInTheMiddle(true);
  ExpectDraining(true);
  script_.ExpectSent(Parts(3)[1]);
  script_.ExpectSent(Parts(3)[2]);
  script_.ExpectNothingSent();
  script_.ExpectNoEvent();  // sent, but not yet acknowledged

  script_.Inject(Ack(first_ + 2));
  script_.ExpectCompletion(1);
  script_.ExpectNoCompletion();
  ExpectDraining(false);
  script_.ExpectEvent(EventType::kSendQueueDrained);
  script_.ExpectNoEvent();
  script_.ExpectNothingSent();
  script_.ExpectNoDeadline();

  // Expect: in RTS the held-back SEND goes out and completes as usual.
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.ExpectSent(Send(Position::kOnly, first_ + 3).With(script_.Bytes(0, 10)));
  script_.Inject(Ack(first_ + 3));
  script_.ExpectCompletion(2);
}

TEST_F(DrainTest, TimeoutWhileDrainingResendsTheStartedMessage) {
  DrainInTheMiddle(true);
  script_.TakeSent();
  script_.Advance(kAckTimeout);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  script_.Inject(Nak(first_ + 1, NakCode::kPsnSequenceError));
  script_.ExpectSent(Parts(3)[1]);
  script_.ExpectSent(Parts(3)[2]);
  script_.Inject(RnrNak(first_ + 1, 1));
  script_.Advance(Microseconds(10));
  script_.ExpectSent(Parts(3)[1]);
  script_.ExpectSent(Parts(3)[2]);
  ExpectDraining(true);
  script_.Inject(Ack(first_ + 2));
  script_.ExpectCompletion(1);
  script_.ExpectEvent(EventType::kSendQueueDrained);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
}

TEST_F(DrainTest, AReadIsFinishedAndALostPartIsAskedForAgain) {
  script_.PostRead(1, 0, 3 * kPart);
  script_.TakeSent();
  Drain(true);
  script_.PostRead(2, 0, 8);
  script_.Inject(ReadResponse(Position::kFirst, first_).With(Pattern(kPart)));
  script_.Inject(ReadResponse(Position::kLast, first_ + 2).With(Pattern(kPart)));
  script_.ExpectSent(Read(first_ + 1, Script::kPeerAddress + kPart, Script::kPeerRkey, 2 * kPart));
  script_.Inject(ReadResponse(Position::kFirst, first_ + 1).With(Pattern(kPart)));
  script_.ExpectNoEvent();
  script_.Inject(ReadResponse(Position::kLast, first_ + 2).With(Pattern(kPart)));
  script_.ExpectCompletion(1);
  script_.ExpectEvent(EventType::kSendQueueDrained);
  script_.ExpectNothingSent();
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.ExpectSent(Read(first_ + 3, Script::kPeerAddress, Script::kPeerRkey, 8));
}

TEST_F(DrainTest, RequestsPostedInSqdWaitForRts) {
  Drain(false);
  script_.PostSend(1, 0, 10);
  script_.PostWrite(2, 0, 10);
  script_.ExpectNothingSent();
  ExpectDraining(false);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  EXPECT_EQ(script_.TakeSent().size(), 2u);
  script_.Inject(Ack(first_ + 1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
}

TEST_F(DrainTest, AnEmptySendQueueIsDrainedAtOnce) {
  Drain(true);
  ExpectDraining(false);
  script_.ExpectEvent(EventType::kSendQueueDrained);
  script_.ExpectNoEvent();
}

TEST_F(DrainTest, DrainWithoutNotifyRaisesNoEvent) {
  DrainInTheMiddle(false);
  script_.TakeSent();
  script_.Inject(Ack(first_ + 2));
  script_.ExpectCompletion(1);
  ExpectDraining(false);
  script_.ExpectNoEvent();
}

// IBA 11.6.3.1 SQ_DRAINED.
// A request for the event counts for one stay in SQD only.
TEST_F(DrainTest, LeavingSqdForgetsTheQuestion) {
  DrainInTheMiddle(true);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.TakeSent();
  EXPECT_EQ(script_.MoveTo(kSqd), Status::kOk);  // this time without asking for the event
  script_.Inject(Ack(first_ + 3));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
  ExpectDraining(false);
  script_.ExpectNoEvent();
}

TEST_F(DrainTest, SqDrainedIsRaisedOnceForEachTimeItIsAskedFor) {
  for (int i = 0; i < 3; ++i) {
    Drain(true);
    script_.ExpectEvent(EventType::kSendQueueDrained);
    EXPECT_EQ(Set(Mask::kMinRnrTimer, &QpAttributes::min_rnr_timer, 3), Status::kOk);
    script_.Inject(Ack(first_));
    script_.ExpectNoEvent();
    EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
    script_.ExpectNoEvent();
  }
}

TEST_F(DrainTest, AFailureWhileDrainingEndsInErrWithoutTheEvent) {
  DrainInTheMiddle(true);
  script_.TakeSent();
  script_.Inject(Nak(first_, NakCode::kRemoteAccessError));
  script_.ExpectCompletion(1, CompletionStatus::kRemoteAccessError);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
  script_.ExpectState(QpState::kError);
  script_.ExpectNoEvent();
  EXPECT_FALSE(script_.qp().Query().sq_draining);
}

// SQD does not affect the receive side.
TEST_F(DrainTest, RequestsOfThePeerAreCarriedOut) {
  Drain(false);
  script_.SetWord(64, 40);
  script_.PostReceive(9, 1'024, kPart);
  script_.Inject(Send(Position::kOnly, peers_).With("hello"));
  script_.ExpectSent(Ack(peers_).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(9).byte_length, 5u);
  script_.Inject(
      Write(Position::kOnly, peers_ + 1, Script::Address(0), script_.rkey(), 2).With("ab"));
  script_.ExpectSent(Ack(peers_ + 1).Msn(2));
  script_.Inject(Read(peers_ + 2, Script::Address(0), script_.rkey(), 2));
  script_.ExpectSent(ReadResponse(Position::kOnly, peers_ + 2).With("ab").Msn(3));
  script_.Inject(FetchAdd(peers_ + 3, Script::Address(64), script_.rkey(), 2));
  script_.ExpectSent(AtomicAck(peers_ + 3, 40).Msn(4));
  script_.Inject(Send(Position::kOnly, peers_ + 5));
  script_.ExpectSent(Nak(peers_ + 4, NakCode::kPsnSequenceError));
  script_.Inject(Send(Position::kOnly, peers_ + 4));
  script_.ExpectSent(RnrNak(peers_ + 4, 12));
}

// Attributes that SQD -> SQD may change, and their effects.
class DrainedModifyTest : public DrainTest {
 protected:
  DrainedModifyTest() { Drain(false); }
};

TEST_F(DrainedModifyTest, TheAckTimeout) {
  EXPECT_EQ(Set(Mask::kTimeout, &QpAttributes::timeout, 10), Status::kOk);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  script_.Advance(kAckTimeout * 4 - Duration{1});
  script_.ExpectNothingSent();
  script_.Advance(Duration{1});
  EXPECT_EQ(script_.TakeSent().size(), 1u);
}

TEST_F(DrainedModifyTest, TheRetryCount) {
  EXPECT_EQ(Set(Mask::kRetryCount, &QpAttributes::retry_count, 0), Status::kOk);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  script_.Advance(kAckTimeout);
  script_.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
}

TEST_F(DrainedModifyTest, TheRnrRetryCount) {
  EXPECT_EQ(Set(Mask::kRnrRetry, &QpAttributes::rnr_retry, 0), Status::kOk);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  script_.Inject(RnrNak(first_, 1));
  script_.ExpectCompletion(1, CompletionStatus::kRnrRetryExceeded);
}

TEST_F(DrainedModifyTest, TheReadsThatMayBeOutstanding) {
  EXPECT_EQ(Set(Mask::kMaxReadAtomic, &QpAttributes::max_read_atomic, 1), Status::kOk);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.PostRead(1, 0, 8);
  script_.PostRead(2, 0, 8);
  EXPECT_EQ(script_.TakeSent().size(), 1u);
}

TEST_F(DrainedModifyTest, FewerResponderResources) {
  EXPECT_EQ(Set(Mask::kMaxDestReadAtomic, &QpAttributes::max_dest_read_atomic, 1), Status::kOk);
  script_.HoldTransmit();
  script_.Inject(Read(peers_, Script::Address(0), script_.rkey(), 8));
  script_.Inject(Read(peers_ + 1, Script::Address(0), script_.rkey(), 8));
  script_.ReleaseTransmit();
  script_.ExpectSent(ReadResponse(Position::kOnly, peers_).With(std::vector<uint8_t>(8)));
  script_.ExpectSent(Nak(peers_ + 1, NakCode::kInvalidRequest));
  script_.ExpectState(QpState::kError);
}

TEST_F(DrainedModifyTest, MoreResponderResources) {
  EXPECT_EQ(Set(Mask::kMaxDestReadAtomic, &QpAttributes::max_dest_read_atomic, 6), Status::kOk);
  script_.HoldTransmit();
  for (uint32_t i = 0; i < 6; ++i) {
    script_.Inject(Read(peers_ + i, Script::Address(0), script_.rkey(), 8));
  }
  script_.ReleaseTransmit();
  for (uint32_t i = 0; i < 6; ++i) {
    script_.ExpectSent(ReadResponse(Position::kOnly, peers_ + i).With(std::vector<uint8_t>(8)));
  }
}

TEST_F(DrainedModifyTest, TheRnrTimer) {
  EXPECT_EQ(Set(Mask::kMinRnrTimer, &QpAttributes::min_rnr_timer, 29), Status::kOk);
  script_.Inject(Send(Position::kOnly, peers_));
  script_.ExpectSent(RnrNak(peers_, 29));
}

TEST_F(DrainedModifyTest, TheAccessOfThePeer) {
  EXPECT_EQ(Set(Mask::kAccessFlags, &QpAttributes::access, AccessFlags(AccessFlags::kRemoteRead)),
            Status::kOk);
  script_.Inject(Read(peers_, Script::Address(0), script_.rkey(), 0));
  script_.ExpectSent(ReadResponse(Position::kOnly, peers_));
  script_.Inject(
      Write(Position::kOnly, peers_ + 1, Script::Address(0), script_.rkey(), 1).With("x"));
  script_.ExpectSent(Nak(peers_ + 1, NakCode::kInvalidRequest));
}

// Packets go to the new address, and are accepted only from there.
TEST_F(DrainedModifyTest, ThePath) {
  const Gid elsewhere = Gid::FromIpv4({192, 0, 2, 99});
  QpAttributes attributes = script_.qp().Query();
  attributes.address.destination_gid = elsewhere;
  attributes.address.destination_mac = {2, 9, 9, 9, 9, 9};
  attributes.address.hop_limit = 3;
  EXPECT_EQ(script_.qp().Modify(attributes, Mask::kAddressVector), Status::kOk);
  EXPECT_EQ(script_.MoveTo(kRts), Status::kOk);
  script_.PostSend(1, 0, 10);
  script_.TakeSent();
  const auto& frame = script_.last_frame();
  EXPECT_EQ(std::vector(frame.begin(), frame.begin() + 6),
            (std::vector<uint8_t>{2, 9, 9, 9, 9, 9}));
  EXPECT_EQ(frame[14 + 8], 3) << "TTL";
  EXPECT_EQ(frame[14 + 19], 99) << "the last byte of the destination address";
  script_.ExpectDropped(DropReason::kForeignSource, Ack(first_));
  EXPECT_EQ(script_.InjectFrame(script_.Frame(Ack(first_), elsewhere)), DropReason::kNone);
  script_.ExpectCompletion(1);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
