// An XRC initiator: the sending half of RC. Each request names a shared receive queue of the peer
// (XRCETH).

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;
constexpr Srqn kOther{0xff'ffff};

class XrcInitiatorTest : public testing::Test {
 protected:
  static SendWorkRequest Request(uint64_t wr_id, SendOpcode opcode, Srqn srqn = kOther) {
    SendWorkRequest request = Script::Request(wr_id, opcode);
    request.remote_srqn = srqn;
    return request;
  }
  std::vector<uint8_t> FromMemory(uint64_t offset, size_t length) {
    return script_.Bytes(offset, length);
  }

  Script script_{{.type = QpType::kXrcSend}};
  const Psn first_ = script_.first_psn();
};

TEST_F(XrcInitiatorTest, EachRequestNamesItsQueue) {
  EXPECT_EQ(script_.Post(Request(1, SendOpcode::kSend), 0, 3), Status::kOk);
  script_.PostSend(2, 8, 3);
  script_.ExpectSent(Send(Position::kOnly, first_).To(kOther).With(FromMemory(0, 3)));
  script_.ExpectSent(
      Send(Position::kOnly, first_ + 1).To(Script::kPeerSrqn).With(FromMemory(8, 3)));
  script_.Inject(Ack(first_ + 1).Msn(2));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
}

TEST_F(XrcInitiatorTest, EachPacketOfAMessageNamesItsQueue) {
  EXPECT_EQ(script_.Post(Request(1, SendOpcode::kRdmaWriteWithImmediate), 0, 2 * kPart + 1),
            Status::kOk);
  script_.ExpectSent(
      Write(Position::kFirst, first_, Script::kPeerAddress, Script::kPeerRkey, 2 * kPart + 1)
          .To(kOther)
          .With(FromMemory(0, kPart))
          .AckRequest(false));
  script_.ExpectSent(
      Write(Position::kMiddle, first_ + 1).To(kOther).With(FromMemory(kPart, kPart)));
  script_.ExpectSent(
      Write(Position::kLast, first_ + 2).To(kOther).With(FromMemory(2 * kPart, 1)).Immediate(0));
  script_.Inject(Ack(first_ + 2).Msn(1));
  script_.ExpectCompletion(1);
}

TEST_F(XrcInitiatorTest, ReadsAndAtomicsAreAnswered) {
  EXPECT_EQ(script_.Post(Request(1, SendOpcode::kRdmaRead), 0, 4), Status::kOk);
  SendWorkRequest add = Request(2, SendOpcode::kFetchAndAdd);
  add.compare_or_add = 5;
  EXPECT_EQ(script_.Post(add, 64, 8), Status::kOk);
  SendWorkRequest swap = Request(3, SendOpcode::kCompareAndSwap);
  swap.compare_or_add = 6;
  swap.swap = 7;
  EXPECT_EQ(script_.Post(swap, 128, 8), Status::kOk);
  script_.ExpectSent(Read(first_, Script::kPeerAddress, Script::kPeerRkey, 4).To(kOther));
  script_.ExpectSent(FetchAdd(first_ + 1, Script::kPeerAddress, Script::kPeerRkey, 5).To(kOther));
  script_.ExpectSent(
      CompareSwap(first_ + 2, Script::kPeerAddress, Script::kPeerRkey, 6, 7).To(kOther));
  script_.Inject(ReadResponse(Position::kOnly, first_).With("abcd"));
  script_.Inject(AtomicAck(first_ + 1, 77));
  script_.Inject(AtomicAck(first_ + 2, 78));
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  EXPECT_EQ(script_.Bytes(0, 4), (std::vector<uint8_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(script_.Word(64), 77u);
  EXPECT_EQ(script_.Word(128), 78u);
}

TEST_F(XrcInitiatorTest, SendWithInvalidate) {
  SendWorkRequest request = Request(1, SendOpcode::kSendWithInvalidate);
  request.invalidate_rkey = RKey{0x1234};
  EXPECT_EQ(script_.Post(request, 0, 1), Status::kOk);
  script_.ExpectSent(
      Send(Position::kOnly, first_).To(kOther).With(FromMemory(0, 1)).Invalidate(RKey{0x1234}));
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
}

// The peer has shared queues only, so there are no credits to wait for, whatever an ACK contains.
TEST_F(XrcInitiatorTest, SendsDoNotWaitForCredits) {
  for (uint64_t i = 1; i <= 3; ++i) script_.PostSend(i, 0, 1);
  for (uint32_t i = 0; i < 3; ++i) {
    script_.ExpectSent(Send(Position::kOnly, first_ + i).With(FromMemory(0, 1)));
  }
  script_.Inject(Ack(first_).Msn(1).Credits(0));
  script_.ExpectCompletion(1);
  script_.PostSend(4, 0, 1);
  script_.ExpectSent(Send(Position::kOnly, first_ + 3).With(FromMemory(0, 1)));
  script_.Inject(Ack(first_ + 3).Msn(4));
  for (uint64_t i = 2; i <= 4; ++i) script_.ExpectCompletion(i);
}

// IBA 9.7.5.2.8.
TEST_F(XrcInitiatorTest, AnEmptyQueueOfThePeerIsWaitedFor) {
  script_.PostSend(1, 0, 1);
  const auto send = Send(Position::kOnly, first_).With(FromMemory(0, 1));
  script_.ExpectSent(send);
  script_.Inject(RnrNak(first_, 1));  // 10 us
  script_.ExpectNothingSent();
  script_.Advance(Microseconds(11));
  script_.ExpectSent(send);
  script_.Inject(Ack(first_));
  script_.ExpectCompletion(1);
}

TEST_F(XrcInitiatorTest, AQueueThatThePeerDoesNotKnowEndsTheConnection) {
  script_.PostSend(1, 0, 1);
  script_.PostSend(2, 0, 1);
  script_.TakeSent();
  script_.Inject(Nak(first_, NakCode::kInvalidRequest));
  script_.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  script_.ExpectCompletion(2, CompletionStatus::kFlushed);
  script_.ExpectState(QpState::kError);
}

TEST_F(XrcInitiatorTest, ReceivesNothing) {
  EXPECT_NE(script_.qp().PostReceive({}), Status::kOk);
  script_.ExpectDropped(DropReason::kWrongService,
                        Send(Position::kOnly, script_.peers_first_psn()));
  script_.ExpectDropped(DropReason::kWrongService, Ack(first_).Of(Service::kReliableConnection));
  script_.ExpectNothingSent();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
