// Messages of one packet, in sequence, that need a further check: they take the short way as far as
// possible.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

// In a queue of one, the next SEND would use the entry that the first SEND has used up.
TEST(PlainRequestTest, SendThatFindsTheOnlyReceiveUsedUp) {
  Script script({.queue_depth = 1});
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, 64);
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(Ack(first));
  script.ExpectCompletion(1);
  script.Inject(Send(Position::kOnly, first + 1).With("b"));
  script.ExpectSent(RnrNak(first + 1, 12).Msn(1));
  script.ExpectNoCompletion();
  EXPECT_EQ(script.Bytes(0, 1), std::vector<uint8_t>{'a'});
}

// A region that its owner may only read.
TEST(PlainRequestTest, SendIntoMemoryThatMayNotBeWritten) {
  Script script;
  const Psn first = script.peers_first_psn();
  const auto key = script.endpoint().memory().Register(
      {Script::kPd, Script::kIova, script.memory(), Script::kMemoryBytes, AccessFlags(0)});
  ASSERT_TRUE(key);
  const ScatterGatherEntry sge{Script::Address(0), 64, *key};
  ASSERT_EQ(script.qp().PostReceive({1, {&sge, 1}}), Status::kOk);
  const auto before = script.Bytes(0, 64);
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(Nak(first, NakCode::kRemoteOperationalError));
  script.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  script.ExpectState(QpState::kError);
  EXPECT_EQ(script.Bytes(0, 64), before);
}

// IBA 11.4.2.2: an event for a solicited completion is raised by the packet that solicits it.
TEST(PlainRequestTest, OnlyASolicitedMessageRaisesASolicitedEvent) {
  Script script;
  const Psn first = script.peers_first_psn();
  for (const uint64_t id : {1, 2}) script.PostReceive(id, 0, 64);
  script.cq().Arm(CompletionQueue::NotifyOn::kSolicited);
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(Ack(first));
  script.ExpectCompletion(1);
  script.ExpectNoEvent();
  script.Inject(Send(Position::kOnly, first + 1).With("b").Solicited());
  script.ExpectSent(Ack(first + 1));
  script.ExpectCompletion(2);
  script.ExpectEvent(EventType::kCompletion);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
