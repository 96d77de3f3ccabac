// Every asynchronous event: when and how often it is raised, and for which object. SQ_DRAINED is in
// send_queue_drain_test.cc, the events of shared receive queues are in shared_receive_test.cc.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/states.h"

namespace uroce::transport::packet_scripts {
namespace {

// IBA 11.6.3.1 COMM_EST: a packet came before the application took the queue pair to RTS.
TEST(CommunicationEstablishedTest, OnceInRtr) {
  for (const QpType type : {QpType::kReliableConnection, QpType::kUnreliableConnection}) {
    Script script({.type = type, .state = QpState::kReadyToReceive});
    const Psn psn = script.peers_first_psn();
    script.PostReceive(1, 0, 64);
    script.PostReceive(2, 0, 64);
    script.Inject(Send(Position::kOnly, psn));
    script.ExpectEvent(EventType::kCommunicationEstablished);
    script.Inject(Send(Position::kOnly, psn + 1));
    script.ExpectNoEvent();
    script.ExpectCompletion(1);
    script.ExpectCompletion(2);
    script.TakeSent();
  }
}

TEST(CommunicationEstablishedTest, NotInRts) {
  Script script;
  script.PostReceive(1, 0, 64);
  script.Inject(Send(Position::kOnly, script.peers_first_psn()));
  script.ExpectNoEvent();
  script.ExpectCompletion(1);
  script.TakeSent();
}

TEST(CommunicationEstablishedTest, NotRaisedForRefusedOrDroppedPackets) {
  Script script({.state = QpState::kReadyToReceive});
  script.Inject(Send(Position::kOnly, script.peers_first_psn() + 1));  // a gap
  script.Inject(Send(Position::kOnly, script.peers_first_psn()));      // no receive request
  script.ExpectNoEvent();
  script.TakeSent();
}

TEST(CommunicationEstablishedTest, AgainAfterReset) {
  Script script({.state = QpState::kReadyToReceive});
  for (uint64_t life = 1; life <= 2; ++life) {
    script.PostReceive(life, 0, 64);
    script.Inject(Send(Position::kOnly, script.peers_first_psn()));
    script.ExpectEvent(EventType::kCommunicationEstablished);
    script.ExpectCompletion(life);
    script.TakeSent();
    EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
    script.Connect();
  }
}

// IBA 11.6.3.2 QP_REQ_ERR: an invalid request, when no receive request can report it.
TEST(RequestErrorTest, AnOpcodeOutOfSequence) {
  Script script;
  script.Inject(Send(Position::kMiddle, script.peers_first_psn()).With(Pattern(256)));
  script.ExpectSent(Nak(script.peers_first_psn(), NakCode::kInvalidRequest));
  script.ExpectEvent(EventType::kQpRequestError);
  script.ExpectNoEvent();
}

// IBA 11.6.3.2 QP_ACCESS_ERR: a request for memory that the peer may not access.
TEST(AccessErrorTest, AWrongKey) {
  Script script;
  script.Inject(Read(script.peers_first_psn(), Script::Address(0), RKey{1}, 8));
  script.ExpectSent(Nak(script.peers_first_psn(), NakCode::kRemoteAccessError));
  script.ExpectEvent(EventType::kQpAccessError);
  script.ExpectNoEvent();
}

// IBA C9-222.1.1: a message that has a receive request is reported by its completion alone.
TEST(AccessErrorTest, NotRaisedWhenAReceiveRequestCompletesInError) {
  Script script;
  const Psn psn = script.peers_first_psn();
  script.PostReceive(1, 0, 1'024);
  script.Inject(Send(Position::kFirst, psn).With(Pattern(256)));
  script.Inject(Write(Position::kMiddle, psn + 1).With(Pattern(256)));
  script.ExpectSent(Nak(psn + 1, NakCode::kInvalidRequest));
  script.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  script.ExpectNoEvent();
}

// A failed request of our own is reported by its completion, too.
TEST(AccessErrorTest, NotAtTheRequester) {
  Script script;
  script.PostWrite(1, 0, 8);
  script.TakeSent();
  script.Inject(Nak(script.first_psn(), NakCode::kRemoteAccessError));
  script.ExpectCompletion(1, CompletionStatus::kRemoteAccessError);
  script.ExpectNoEvent();
}

class CqOverrunTest : public testing::TestWithParam<QpType> {
 protected:
  void ExpectOverrun() {
    script_.ExpectEvent(EventType::kCqError);
    script_.ExpectEvent(EventType::kQpFatal);
    script_.ExpectNoEvent();
    script_.ExpectState(QpState::kError);
    EXPECT_TRUE(script_.cq().in_error());
  }

  Script script_{{.type = GetParam(), .cq_capacity = 3}};
};

// IBA 11.6.3.2 CQ_ERR, 11.6.3.2 QP_FATAL: a completion found no room. Earlier completions can still
// be polled; those that the queue pair would flush are lost.
TEST_P(CqOverrunTest, OfSends) {
  script_.HoldCompletions();
  for (uint64_t i = 1; i <= 5; ++i) script_.PostSend(i, 0, 8);
  if (GetParam() == QpType::kReliableConnection) {
    script_.Inject(Ack(script_.first_psn() + 2));
    script_.ExpectNoEvent();  // full, but not overrun
    script_.Inject(Ack(script_.first_psn() + 3));
  }
  ExpectOverrun();
  script_.TakeSent();
  script_.ReleaseCompletions();
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  script_.ExpectNoCompletion();
}

TEST_P(CqOverrunTest, OfReceives) {
  const Psn psn = script_.peers_first_psn();
  for (uint64_t i = 1; i <= 5; ++i) script_.PostReceive(i, 0, 64);
  script_.HoldCompletions();
  for (uint32_t i = 0; i < 3; ++i) script_.Inject(Send(Position::kOnly, psn + i));
  script_.ExpectNoEvent();
  script_.Inject(Send(Position::kOnly, psn + 3));
  ExpectOverrun();
  script_.TakeSent();
  script_.ReleaseCompletions();
  for (uint64_t i = 1; i <= 3; ++i) script_.ExpectCompletion(i);
  script_.ExpectNoCompletion();
}

// After RESET the queue pair works, though the completion queue stays in error.
TEST_P(CqOverrunTest, ResetGivesAQueuePairThatWorks) {
  script_.HoldCompletions();
  for (uint64_t i = 1; i <= 5; ++i) script_.PostReceive(i, 0, 64);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectEvent(EventType::kCqError);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.Connect();
  script_.ExpectState(QpState::kReadyToSend);
  script_.ExpectNoEvent();
  script_.ReleaseCompletions();
  script_.ExpectNoCompletion();  // RESET removed them
}

INSTANTIATE_TEST_SUITE_P(EveryService, CqOverrunTest, testing::ValuesIn(kServices));

// IBA 11.6.3.3 DEVICE_FATAL: every queue pair that does anything goes to ERR.
TEST(DeviceFatalTest, FlushesEverything) {
  for (const QpType type : kServices) {
    Script script({.type = type});
    script.HoldTransmit();
    script.PostSend(1, 0, 8);
    script.PostReceive(2, 0, 64);
    script.endpoint().Fail();
    script.ExpectEvent(EventType::kDeviceFatal);
    script.ExpectNoEvent();
    script.ExpectState(QpState::kError);
    script.ExpectCompletion(1, CompletionStatus::kFlushed);
    script.ExpectCompletion(2, CompletionStatus::kFlushed);
    script.ReleaseTransmit();
    script.ExpectNothingSent();
  }
}

// A carrier may be lost and come back: retransmission covers that.
TEST(PortEventTest, QueuePairsGoOn) {
  Script script;
  script.endpoint().TellPortState(false);
  script.ExpectEvent(EventType::kPortError);
  script.endpoint().TellPortState(true);
  script.ExpectEvent(EventType::kPortActive);
  script.ExpectNoEvent();
  script.ExpectState(QpState::kReadyToSend);
}

// Changes of addresses that a queue pair does not use do not affect it.
TEST(PortEventTest, QueuePairsGoOnWithOtherAddressesThanBefore) {
  Script script;
  std::vector<Gid> gids = script.endpoint().config().gids;
  gids.push_back(Gid::FromIpv4({192, 0, 2, 77}));
  script.endpoint().FollowGids(gids);
  script.ExpectEvent(EventType::kGidChange);
  script.ExpectNoEvent();
  script.ExpectState(QpState::kReadyToSend);
}

// A completion event announces the next completion, or the next that the peer solicits; an error
// counts as solicited (IBA 11.4.2.2).
TEST(CompletionEventTest, SolicitedOrAny) {
  using NotifyOn = CompletionQueue::NotifyOn;
  Script script;
  const Psn psn = script.peers_first_psn();
  for (uint64_t i = 0; i < 5; ++i) script.PostReceive(i, 0, 64);
  script.cq().Arm(NotifyOn::kSolicited);
  script.Inject(Send(Position::kOnly, psn));
  script.ExpectNoEvent();
  script.Inject(Send(Position::kOnly, psn + 1).Solicited());
  script.ExpectEvent(EventType::kCompletion);
  script.Inject(Send(Position::kOnly, psn + 2).Solicited());
  script.ExpectNoEvent();  // the queue must be armed again
  script.cq().Arm(NotifyOn::kAny);
  script.Inject(Send(Position::kOnly, psn + 3));
  script.ExpectEvent(EventType::kCompletion);
  script.cq().Arm(NotifyOn::kSolicited);
  EXPECT_EQ(script.MoveTo(QpState::kError), Status::kOk);
  script.ExpectEvent(EventType::kCompletion);
  script.TakeSent();
  EXPECT_EQ(script.TakeCompletions().size(), 5u);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
