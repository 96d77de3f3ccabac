// Going to ERR: what is flushed, in which order, and which packets are still accepted and sent.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

Status MoveTo(Script& script, QpState state) {
  QpAttributes attributes;
  attributes.state = state;
  return script.qp().Modify(attributes, QpAttributeMask::kState);
}

// IBA 10.3.1.7.
TEST(FlushTest, MovingToErrFlushesBothQueuesInOrder) {
  Script script;
  for (uint64_t i = 0; i < 4; ++i) script.PostReceive(100 + i, 1'024, 16);
  for (uint64_t i = 0; i < 3; ++i) script.PostSend(i, 0, 10);
  SendWorkRequest unsignaled;
  unsignaled.wr_id = 3;
  unsignaled.opcode = SendOpcode::kRdmaWrite;
  EXPECT_EQ(script.Post(unsignaled, 0, 10), Status::kOk);
  script.TakeSent();
  EXPECT_EQ(MoveTo(script, QpState::kError), Status::kOk);
  for (uint64_t i = 0; i < 4; ++i) {
    const auto completion = script.ExpectCompletion(i, CompletionStatus::kFlushed);
    EXPECT_EQ(completion.vendor_error, VendorError::kFlushedByUser);
  }
  for (uint64_t i = 0; i < 4; ++i) script.ExpectCompletion(100 + i, CompletionStatus::kFlushed);
  script.ExpectNothingSent();
  script.ExpectNoDeadline();
}

// IBA C10-96, C10-97.2.1.
TEST(FlushTest, RequestsPostedInErrAreFlushedAtOnce) {
  Script script;
  EXPECT_EQ(MoveTo(script, QpState::kError), Status::kOk);
  script.PostSend(1, 0, 10);
  script.ExpectCompletion(1, CompletionStatus::kFlushed);
  script.PostReceive(2, 0, 10);
  script.ExpectCompletion(2, CompletionStatus::kFlushed);
  script.ExpectNothingSent();
}

// A receive that a message had begun to fill is flushed too.
TEST(FlushTest, AReceiveInUseIsFlushed) {
  Script script;
  script.PostReceive(1, 1'024, 1'024);
  script.Inject(Send(Position::kFirst, script.peers_first_psn()).With(Pattern(256)));
  EXPECT_EQ(MoveTo(script, QpState::kError), Status::kOk);
  script.ExpectCompletion(1, CompletionStatus::kFlushed);
}

// rxe executed the same packet about a thousand times after the queue pair had gone to ERR.
TEST(FlushTest, PacketsReceivedInErrAreDropped) {
  Script script;
  const Psn first = script.peers_first_psn();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.PostReceive(2, 1'024, 16);
  EXPECT_EQ(MoveTo(script, QpState::kError), Status::kOk);
  script.ExpectCompletion(1, CompletionStatus::kFlushed);
  script.ExpectCompletion(2, CompletionStatus::kFlushed);
  const PacketSpec packets[] = {
      Send(Position::kOnly, first).With("x"),
      Write(Position::kOnly, first, Script::Address(0), script.rkey(), 1).With("x"),
      Read(first, Script::Address(0), script.rkey(), 8),
      FetchAdd(first, Script::Address(0), script.rkey(), 1),
      Ack(script.first_psn()),
      Nak(script.first_psn(), NakCode::kPsnSequenceError),
      RnrNak(script.first_psn(), 1)};
  for (const PacketSpec& packet : packets) {
    EXPECT_EQ(script.Inject(packet), DropReason::kQpNotReady);
    script.ExpectNothingSent();
    script.ExpectNoCompletion();
  }
  EXPECT_EQ(script.Word(0), 0u);
}

// IBA 11.6.3.1 COMM_EST.
TEST(FlushTest, InRtrRequestsAreExecutedAndResponsesAreNot) {
  Script script({.state = QpState::kReadyToReceive});
  script.PostReceive(1, 1'024, 16);
  EXPECT_EQ(script.Inject(Ack(script.first_psn())), DropReason::kQpNotReady);
  EXPECT_EQ(script.Inject(Send(Position::kOnly, script.peers_first_psn()).With("x")),
            DropReason::kNone);
  script.ExpectSent(Ack(script.peers_first_psn()));
  script.ExpectCompletion(1);
  script.ExpectEvent(EventType::kCommunicationEstablished);
}

TEST(FlushTest, PacketsReceivedInInitAreDropped) {
  Script script({.state = QpState::kInit});
  script.PostReceive(1, 1'024, 16);
  EXPECT_NE(script.Inject(Send(Position::kOnly, script.peers_first_psn()).With("x")),
            DropReason::kNone);
  script.ExpectNothingSent();
  script.ExpectNoCompletion();
}

// IBA 10.3.1.1: RESET drops all requests, without completions.
TEST(FlushTest, ResetForgetsEverything) {
  Script script;
  script.PostReceive(100, 1'024, 16);
  script.PostSend(1, 0, 10);
  script.PostRead(2, 0, 10);
  script.TakeSent();
  EXPECT_EQ(MoveTo(script, QpState::kReset), Status::kOk);
  script.ExpectNoCompletion();
  script.ExpectNoDeadline();
  script.ExpectNothingSent();
  EXPECT_EQ(script.Inject(Ack(script.first_psn())), DropReason::kQpNotReady);
  EXPECT_EQ(script.Inject(Send(Position::kOnly, script.peers_first_psn()).With("x")),
            DropReason::kQpNotReady);
  EXPECT_EQ(MoveTo(script, QpState::kReset), Status::kOk) << "some programs do it twice";
}

// A frame built before the move to ERR stays in order; none is built after.
TEST(FlushTest, NothingThatWaitedToBeSentIsSentInErr) {
  Script script;
  script.HoldTransmit();
  for (uint64_t i = 0; i < 3; ++i) script.PostSend(i, 0, 700);
  script.Inject(Read(script.peers_first_psn(), Script::Address(0), script.rkey(), 1'024));
  script.TransmitOne();
  EXPECT_EQ(script.TakeSent().size(), 1u);
  EXPECT_EQ(MoveTo(script, QpState::kError), Status::kOk);
  script.ReleaseTransmit();
  script.ExpectNothingSent();
  for (uint64_t i = 0; i < 3; ++i) script.ExpectCompletion(i, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
