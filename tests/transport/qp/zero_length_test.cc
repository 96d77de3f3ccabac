// Messages of zero bytes, with every operation, on both sides.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/windows.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr SendOpcode kOpcodes[] = {
    SendOpcode::kRdmaWrite, SendOpcode::kRdmaWriteWithImmediate,
    SendOpcode::kSend,      SendOpcode::kSendWithImmediate,
    SendOpcode::kRdmaRead,  SendOpcode::kSendWithInvalidate,
};

// With an entry of zero bytes, whose key is not checked, and with no entry at all.
TEST(ZeroLengthRequesterTest, TakesOnePacketWithoutPayload) {
  const ScatterGatherEntry nothing{0xdead, 0, LKey{0xdead}};
  for (const SendOpcode opcode : kOpcodes) {
    for (const size_t entries : {0u, 1u}) {
      Script script;
      SendWorkRequest request;
      request.wr_id = 1;
      request.opcode = opcode;
      request.signaled = true;
      request.sges = {&nothing, entries};
      EXPECT_EQ(script.qp().PostSend(request), Status::kOk);
      const auto sent = script.TakeSent();
      ASSERT_EQ(sent.size(), 1u);
      EXPECT_EQ(sent[0].opcode.position, Position::kOnly);
      EXPECT_TRUE(sent[0].payload.empty());
      EXPECT_EQ(sent[0].reth.dma_length, 0u);
      EXPECT_EQ(script.qp().Query().sq_psn, script.first_psn() + 1) << "one PSN";
      script.Inject(opcode == SendOpcode::kRdmaRead
                        ? ReadResponse(Position::kOnly, script.first_psn())
                        : Ack(script.first_psn()));
      EXPECT_EQ(script.ExpectCompletion(1).byte_length, 0u);
    }
  }
}

class ZeroLengthResponderTest : public testing::Test {
 protected:
  Script script_;
  const Psn first_ = script_.peers_first_psn();
  const RKey no_key_{0x1234'5678};
};

// A receive request without memory is enough for an empty SEND.
TEST_F(ZeroLengthResponderTest, Send) {
  EXPECT_EQ(script_.qp().PostReceive({1, {}}), Status::kOk);
  script_.Inject(Send(Position::kOnly, first_));
  script_.ExpectSent(Ack(first_).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, 0u);
}

TEST_F(ZeroLengthResponderTest, SendWithImmediate) {
  EXPECT_EQ(script_.qp().PostReceive({1, {}}), Status::kOk);
  script_.Inject(Send(Position::kOnly, first_).Immediate(5));
  script_.ExpectSent(Ack(first_).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(1).immediate_or_rkey, 5u);
}

// An empty SEND still takes a receive request.
TEST_F(ZeroLengthResponderTest, ASendWithoutAReceiveRequestWaits) {
  script_.Inject(Send(Position::kOnly, first_));
  script_.ExpectSent(RnrNak(first_, 12));
}

// IBA C9-88.
TEST_F(ZeroLengthResponderTest, WriteNeedsNoKey) {
  script_.Inject(Write(Position::kOnly, first_, ~uint64_t{0}, no_key_, 0));
  script_.ExpectSent(Ack(first_).Msn(1));
}

// IBA C9-88.
TEST_F(ZeroLengthResponderTest, WriteWithImmediateNeedsNoKey) {
  EXPECT_EQ(script_.qp().PostReceive({1, {}}), Status::kOk);
  script_.Inject(Write(Position::kOnly, first_, 0, no_key_, 0).Immediate(6));
  script_.ExpectSent(Ack(first_).Msn(1));
  const auto completion = script_.ExpectCompletion(1);
  EXPECT_EQ(completion.opcode, CompletionOpcode::kReceiveRdmaWithImmediate);
  EXPECT_EQ(completion.byte_length, 0u);
  EXPECT_EQ(completion.immediate_or_rkey, 6u);
}

// IBA C9-88.
TEST_F(ZeroLengthResponderTest, ReadNeedsNoKeyAndTakesOnePsn) {
  script_.Inject(Read(first_, ~uint64_t{0}, no_key_, 0));
  script_.ExpectSent(ReadResponse(Position::kOnly, first_).Msn(1));
  EXPECT_EQ(script_.qp().Query().rq_psn, first_ + 1);
  script_.ExpectDropped(DropReason::kDuplicateRequest, Read(first_, 0, no_key_, 0));
  script_.ExpectSent(ReadResponse(Position::kOnly, first_));
}

// A message must have its announced length, and only a whole message may be empty.
// IBA C9-92.
TEST_F(ZeroLengthResponderTest, AnEmptyLastPacketIsRefused) {
  script_.PostReceive(1, 0, 1'024);
  script_.Inject(Send(Position::kFirst, first_).With(Pattern(256)));
  script_.Inject(Send(Position::kLast, first_ + 1));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kInvalidRequest));
  script_.ExpectCompletion(1, CompletionStatus::kLocalLengthError);
}

TEST(ZeroLengthDatagramTest, BringsItsHeaderAlone) {
  Script script({.type = QpType::kUnreliableDatagram});
  script.PostReceive(1, 0, 40);
  EXPECT_EQ(script.Inject(Send(Position::kOnly, script.peers_first_psn())), DropReason::kNone);
  EXPECT_EQ(script.ExpectCompletion(1).byte_length, 40u);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
