// SENDs and WRITEs, in sequence, that need a further check: they take the short way as far as
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

constexpr size_t kMtuBytes = 256;

TEST(PlainRequestTest, FirstPacketOfASendWithoutAReceiveIsNotReady) {
  Script script({.queue_depth = 1});
  const Psn first = script.peers_first_psn();
  script.PostReceive(1, 0, 2 * kMtuBytes);
  script.Inject(Send(Position::kOnly, first).With("a"));
  script.ExpectSent(Ack(first));
  script.ExpectCompletion(1);
  script.Inject(Send(Position::kFirst, first + 1).With(Pattern(kMtuBytes)));
  script.ExpectSent(RnrNak(first + 1, 12).Msn(1));
}

TEST(PlainRequestTest, FirstPacketOfASendIntoMemoryThatMayNotBeWritten) {
  Script script;
  const Psn first = script.peers_first_psn();
  const auto key = script.endpoint().memory().Register(
      {Script::kPd, Script::kIova, script.memory(), Script::kMemoryBytes, AccessFlags(0)});
  ASSERT_TRUE(key);
  const ScatterGatherEntry sge{Script::Address(0), 2 * kMtuBytes, *key};
  ASSERT_EQ(script.qp().PostReceive({1, {&sge, 1}}), Status::kOk);
  const auto before = script.Bytes(0, kMtuBytes);
  script.Inject(Send(Position::kFirst, first).With(Pattern(kMtuBytes)));
  script.ExpectSent(Nak(first, NakCode::kRemoteOperationalError));
  script.ExpectCompletion(1, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(script.Bytes(0, kMtuBytes), before);
}

TEST(PlainRequestTest, SendGoesOnInTheNextBufferOfItsReceive) {
  Script script;
  const Psn first = script.peers_first_psn();
  const ScatterGatherEntry sges[] = {{Script::Address(0), kMtuBytes, script.lkey()},
                                     {Script::Address(1'024), kMtuBytes, script.lkey()}};
  ASSERT_EQ(script.qp().PostReceive({1, sges}), Status::kOk);
  script.Inject(Send(Position::kFirst, first).With(Pattern(kMtuBytes)));
  script.Inject(Send(Position::kLast, first + 1).With(Pattern(kMtuBytes)).AckRequest());
  script.ExpectSent(Ack(first + 1));
  script.ExpectCompletion(1);
  EXPECT_EQ(script.Bytes(1'024, kMtuBytes), Pattern(kMtuBytes));
}

TEST(PlainRequestTest, FirstPacketOfAWriteThatTheQueuePairDoesNotPermit) {
  Script script({.qp_access = AccessFlags(AccessFlags::kRemoteRead)});
  const Psn first = script.peers_first_psn();
  const auto before = script.Bytes(0, kMtuBytes);
  script.Inject(Write(Position::kFirst, first, Script::Address(0), script.rkey(), 2 * kMtuBytes)
                    .With(Pattern(kMtuBytes)));
  script.ExpectSent(Nak(first, NakCode::kInvalidRequest));
  EXPECT_EQ(script.Bytes(0, kMtuBytes), before);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
