// Rate limits: when the next packet of a limited queue pair leaves.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

using M = QpAttributeMask;

constexpr uint32_t kKbps = 80'000;  // 10 bytes a microsecond
// A WRITE of 4 bytes with Ethernet 14, IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4.
constexpr uint32_t kFrameBytes = 14 + 20 + 8 + 12 + 16 + 4 + 4;
constexpr Duration kFrameTime{kFrameBytes * 100};
// enum ibv_rate: 2.5 Gbit/s (0.3125 bytes a nanosecond), 10 Gbit/s, and 100 Gbit/s, which is not
// below the rate of the port.
constexpr uint8_t kRate2Gbps5 = 2;
constexpr uint8_t kRate10Gbps = 3;
constexpr uint8_t kRate100Gbps = 16;

Status Limit(Script& script, uint32_t kbps, uint32_t burst_bytes = 1) {
  QpAttributes a;
  a.rate_limit = {kbps, burst_bytes};
  return script.qp().Modify(a, M::kRateLimit);
}

void SetStaticRate(Script& script, uint8_t rate) {
  QpAttributes a;
  a.address = script.peer_address();
  a.address.static_rate = rate;
  ASSERT_EQ(script.MoveTo(QpState::kSendQueueDrain), Status::kOk);
  ASSERT_EQ(script.qp().Modify(a, M::kAddressVector), Status::kOk);
  ASSERT_EQ(script.MoveTo(QpState::kReadyToSend), Status::kOk);
}

void PostWrites(Script& script, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) script.PostWrite(i, 0, 4);
}

size_t Sent(Script& script) { return script.TakeSent().size(); }

TEST(PacingTest, NextFrameLeavesWhenTheLastOneHasHadItsTime) {
  Script script;
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  EXPECT_EQ(script.qp().Query().rate_limit.kbps, kKbps);
  PostWrites(script, 3);
  for (int sent = 0; sent < 3; ++sent) {
    EXPECT_EQ(Sent(script), 1u);
    script.Advance(kFrameTime - Duration{1});
    EXPECT_EQ(Sent(script), 0u);
    script.Advance(Duration{1});
  }
  EXPECT_EQ(Sent(script), 0u);
  script.Inject(Ack(script.first_psn() + 2));
  EXPECT_EQ(script.TakeCompletions().size(), 3u);
}

TEST(PacingTest, BurstLeavesInOneGoAndIsMadeUpFor) {
  Script script;
  ASSERT_EQ(Limit(script, kKbps, 4 * kFrameBytes), Status::kOk);
  PostWrites(script, 6);
  EXPECT_EQ(Sent(script), 4u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime * 5);  // and the bucket is empty again
  EXPECT_EQ(Sent(script), 1u);
  script.Inject(Ack(script.first_psn() + 5));
  PostWrites(script, 6);
  EXPECT_EQ(Sent(script), 4u);
  script.Advance(kFrameTime * 2);
  EXPECT_EQ(Sent(script), 2u);
  script.Inject(Ack(script.first_psn() + 11));
  EXPECT_EQ(script.TakeCompletions().size(), 12u);
}

TEST(PacingTest, LimitThatIsTakenAwayHoldsNothingUpLater) {
  Script script;
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  PostWrites(script, 1);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime);
  ASSERT_EQ(Limit(script, 0), Status::kOk);
  PostWrites(script, 5);
  EXPECT_EQ(Sent(script), 5u);
  script.Inject(Ack(script.first_psn() + 5));
  EXPECT_EQ(script.TakeCompletions().size(), 6u);
}

// At 1 kbit/s a frame takes two thirds of a second.
TEST(PacingTest, LimitThatIsTakenAwayEndsTheWait) {
  Script script;
  ASSERT_EQ(Limit(script, 1), Status::kOk);
  PostWrites(script, 5);
  EXPECT_EQ(Sent(script), 1u);
  ASSERT_EQ(Limit(script, 0), Status::kOk);
  EXPECT_EQ(Sent(script), 4u);
  // None of the former wait is left.
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  PostWrites(script, 2);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
}

TEST(PacingTest, WaitFollowsTheLimit) {
  Script script;
  ASSERT_EQ(Limit(script, 1), Status::kOk);
  PostWrites(script, 3);
  EXPECT_EQ(Sent(script), 1u);
  ASSERT_EQ(Limit(script, 1), Status::kOk);  // no change
  EXPECT_EQ(Sent(script), 0u);
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime * 2 - Duration{1});  // of both that were sent
  EXPECT_EQ(Sent(script), 0u);
  script.Advance(Duration{1});
  EXPECT_EQ(Sent(script), 1u);
}

TEST(PacingTest, BurstIsMadeUpForAtTheNewLimit) {
  Script script;
  ASSERT_EQ(Limit(script, 1, 4 * kFrameBytes), Status::kOk);
  PostWrites(script, 3);
  EXPECT_EQ(Sent(script), 3u);
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  PostWrites(script, 2);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime * 4 - Duration{1});
  EXPECT_EQ(Sent(script), 0u);
  script.Advance(Duration{1});
  EXPECT_EQ(Sent(script), 1u);
}

TEST(PacingTest, RateOfThePathCountsAndTheLowerOfBoth) {
  Script script;
  SetStaticRate(script, kRate2Gbps5);
  // Without a burst size 64 KiB may leave at once.
  script.PostWrite(0, 0, 32 * 1'024);
  EXPECT_EQ(Sent(script), 128u);
  script.Advance(Microseconds(1'000));
  script.Inject(Ack(script.first_psn() + 127));
  ASSERT_EQ(Limit(script, 0, 16'384), Status::kOk);
  script.PostWrite(1, 0, 32 * 1'024);
  const size_t at_once = Sent(script);
  EXPECT_GT(at_once, 48u);
  EXPECT_LT(at_once, 64u);
  script.Advance(Microseconds(1));  // 312 bytes
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(Microseconds(1'000));
  EXPECT_EQ(Sent(script), 128u - at_once - 1);
  script.Inject(Ack(script.first_psn() + 255));

  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  PostWrites(script, 2);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
  script.Inject(Ack(script.first_psn() + 257));
  EXPECT_EQ(script.TakeCompletions().size(), 4u);
}

TEST(PacingTest, RateThatThePortDoesNotExceedSetsNoLimit) {
  for (const uint8_t rate :
       {uint8_t{0}, uint8_t{1}, kRate100Gbps, uint8_t{24}, uint8_t{25}, uint8_t{255}}) {
    AddressVector address;
    address.static_rate = rate;
    EXPECT_EQ(PacedKbps(address, {}), 0u) << int{rate};
    EXPECT_EQ(PacedKbps(address, {.kbps = 7}), 7u) << int{rate};
  }
  AddressVector address;
  address.static_rate = kRate10Gbps;
  EXPECT_EQ(PacedKbps(address, {}), 10'000'000u);
  EXPECT_EQ(PacedKbps(address, {.kbps = 7}), 7u);
  EXPECT_EQ(PacedKbps(address, {.kbps = 20'000'000}), 10'000'000u);
}

TEST(PacingTest, RetransmissionsArePaced) {
  Script script({.timeout = 8});  // 1 ms
  ASSERT_EQ(Limit(script, kKbps), Status::kOk);
  PostWrites(script, 2);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
  script.Inject(Nak(script.first_psn(), NakCode::kPsnSequenceError));
  EXPECT_EQ(Sent(script), 0u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(kFrameTime);
  EXPECT_EQ(Sent(script), 1u);
  script.Inject(Ack(script.first_psn() + 1));
  EXPECT_EQ(script.TakeCompletions().size(), 2u);
}

TEST(PacingTest, DatagramHasTheRateOfItsAddress) {
  Script script({.type = QpType::kUnreliableDatagram});
  AddressVector slow = script.peer_address();
  slow.static_rate = kRate2Gbps5;
  SendWorkRequest request = Script::Request(1, SendOpcode::kSend);
  request.address = &slow;
  request.remote_qpn = Script::kPeerQpn;
  request.remote_qkey = Script::kQkey;
  ASSERT_EQ(Limit(script, 0, 1), Status::kOk);
  EXPECT_EQ(script.Post(request, 0, 200), Status::kOk);
  EXPECT_EQ(script.Post(request, 0, 200), Status::kOk);
  EXPECT_EQ(Sent(script), 1u);
  script.Advance(Microseconds(1));
  EXPECT_EQ(Sent(script), 1u);
  EXPECT_EQ(script.TakeCompletions().size(), 2u);
}

TEST(PacingTest, LimitIsSetFromRtsOnAndBounded) {
  Script init({.state = QpState::kInit});
  EXPECT_EQ(Limit(init, kKbps), Status::kInvalidArgument);
  Script script;
  EXPECT_EQ(Limit(script, 100'000'000), Status::kOk);
  EXPECT_EQ(Limit(script, 100'000'001), Status::kInvalidArgument);
  ASSERT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
  EXPECT_EQ(script.qp().Query().rate_limit, RateLimit{});
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
