// Which ACKs a requester asks for on a link, and when the other ACKs come.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/transport/linked_processes.h"
#include "transport/limits.h"
#include "transport/peer_progress.h"
#include "transport/time.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kMtuBytes = 1'024;

bool AsksForAck(std::span<const uint8_t> frame) {
  Packet packet;
  EXPECT_EQ(ParseFrame(frame, packet), DropReason::kNone);
  return packet.ack_request;
}

// With header prediction and without.
class LinkedPeerTest : public ::testing::TestWithParam<bool> {
 protected:
  void Write(bool signaled, uint32_t length = 8) { Post(SendOpcode::kRdmaWrite, signaled, length); }
  void Post(SendOpcode opcode, bool signaled, uint32_t length) {
    const ScatterGatherEntry sge = {pair_.first.address(0), length, pair_.first.key};
    SendWorkRequest request;
    request.opcode = opcode;
    request.signaled = signaled;
    request.remote_address = pair_.second.address(0);
    request.rkey = pair_.second.rkey();
    request.sges = {&sge, 1};
    ASSERT_EQ(pair_.first.qp->PostSend(request), Status::kOk);
  }
  // The second process takes the next frame of the first. Returns whether the frame asks for an
  // ACK.
  bool Carry() {
    const auto frame = pair_.Send();
    const bool asks = AsksForAck(frame);
    EXPECT_EQ(pair_.Receive(frame), DropReason::kNone);
    return asks;
  }
  // Passes more time than an ACK timeout.
  void WaitLong() {
    pair_.now = pair_.now + Milliseconds(1'000);
    pair_.first.endpoint.OnDeadline(pair_.now);
  }
  bool IsAllAcknowledged() {
    WaitLong();
    return pair_.Send().empty();
  }
  // Whether the second process wants to send ACKs soon. Tells it that they were sent.
  bool TakeAckWanted() {
    const bool is_wanted = pair_.second.endpoint.is_ack_wanted();
    pair_.second.endpoint.TellAcksSent();
    return is_wanted;
  }

  LinkedProcesses pair_{GetParam()};
};

TEST_P(LinkedPeerTest, UnsignaledMessageIsAcknowledgedWithoutRequest) {
  for (int i = 0; i < 3; ++i) {  // the first one raises an event and is not predicted
    Write(/*signaled=*/false);
    EXPECT_FALSE(Carry());
    EXPECT_FALSE(TakeAckWanted());
    EXPECT_TRUE(pair_.Answer());
    EXPECT_TRUE(IsAllAcknowledged());
  }
}

TEST_P(LinkedPeerTest, SignaledMessageRequestsAnAck) {
  for (int i = 0; i < 3; ++i) {
    Write(/*signaled=*/true);
    EXPECT_TRUE(Carry());
    EXPECT_TRUE(TakeAckWanted());
    EXPECT_TRUE(pair_.Answer());
    EXPECT_EQ(pair_.first.Poll().size(), 1u);
  }
}

TEST_P(LinkedPeerTest, EveryMessageOfASignalAllQueuePairRequestsAnAck) {
  LinkedProcesses pair(GetParam(), /*signal_all=*/true);
  const ScatterGatherEntry sge = {pair.first.address(0), 8, pair.first.key};
  for (int i = 0; i < 3; ++i) {
    SendWorkRequest request;
    request.opcode = SendOpcode::kRdmaWrite;
    request.signaled = false;
    request.remote_address = pair.second.address(0);
    request.rkey = pair.second.rkey();
    request.sges = {&sge, 1};
    ASSERT_EQ(pair.first.qp->PostSend(request), Status::kOk);
    const auto frame = pair.Send();
    EXPECT_TRUE(AsksForAck(frame));
    EXPECT_EQ(pair.Receive(frame), DropReason::kNone);
    EXPECT_TRUE(pair.Answer());
    EXPECT_EQ(pair.first.Poll().size(), 1u);
  }
}

TEST_P(LinkedPeerTest, SendsRequestAcksAsWritesDo) {
  const ScatterGatherEntry sge = {pair_.second.address(0), 64, pair_.second.key};
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(pair_.second.qp->PostReceive({.sges = {&sge, 1}}), Status::kOk);
  }
  for (const bool signaled : {false, true, false}) {
    // The first SEND has no credit: it must ask for an ACK, which brings credits.
    const bool has_no_credit = pair_.second.Poll().empty() && !signaled;
    Post(SendOpcode::kSend, signaled, 8);
    EXPECT_EQ(Carry(), signaled || has_no_credit);
    EXPECT_TRUE(pair_.Answer());
  }
}

// A long message fills the sender's window long before it ends.
TEST_P(LinkedPeerTest, LongMessageRequestsAcksBeforeItsEnd) {
  constexpr uint32_t kPackets = 2 * kAckRequestInterval;
  Write(/*signaled=*/false, kPackets * kMtuBytes);
  uint32_t asked = 0;
  for (uint32_t i = 0; i < kPackets; ++i) {
    const bool asks = Carry();
    EXPECT_EQ(TakeAckWanted(), asks);
    asked += asks ? 1 : 0;
    EXPECT_EQ(pair_.Answer(), asks || i == kPackets - 1);
  }
  EXPECT_EQ(asked, 2u);
}

TEST_P(LinkedPeerTest, LostEndOfALongMessageIsSentAgain) {
  Write(/*signaled=*/false, 2 * kMtuBytes);
  Carry();
  EXPECT_FALSE(pair_.Send().empty());  // lost
  WaitLong();
  const auto again = pair_.Send();  // the first packet, alone
  EXPECT_TRUE(AsksForAck(again));
  EXPECT_EQ(pair_.Receive(again), DropReason::kDuplicateRequest);
  EXPECT_TRUE(pair_.Answer());
  EXPECT_TRUE(Carry());
  EXPECT_TRUE(pair_.Answer());
  EXPECT_TRUE(IsAllAcknowledged());
}

// The link loses a frame, as with fault injection.
TEST_P(LinkedPeerTest, RetransmissionRequestsAnAck) {
  Write(/*signaled=*/false);
  EXPECT_FALSE(AsksForAck(pair_.Send()));
  WaitLong();
  EXPECT_TRUE(Carry());
  EXPECT_TRUE(pair_.Answer());
  EXPECT_TRUE(IsAllAcknowledged());
}

INSTANTIATE_TEST_SUITE_P(Ways, LinkedPeerTest, ::testing::Bool());

// A link that tells whether the peer has answered.
class FrozenPeerTest : public ::testing::TestWithParam<bool>, public PeerProgress {
 protected:
  FrozenPeerTest() : pair_(GetParam(), /*signal_all=*/false, this) {}

  bool HasAnswered(Route route, Time time, Time now) override {
    EXPECT_EQ(route, RouteToBlock(BlockOf(pair_.second.qp->qpn())));
    EXPECT_LE(time, now);
    return has_answered_ && time < now;
  }
  void Post(SendOpcode opcode, uint32_t length = 8) {
    const ScatterGatherEntry sge = {pair_.first.address(0), length, pair_.first.key};
    SendWorkRequest request;
    request.opcode = opcode;
    request.signaled = true;
    request.remote_address = pair_.second.address(0);
    request.rkey = pair_.second.rkey();
    request.sges = {&sge, 1};
    ASSERT_EQ(pair_.first.qp->PostSend(request), Status::kOk);
  }
  // Lets so many ACK timeouts pass, and all probes before. Returns how many frames were sent again.
  int Wait(int timeouts) {
    int sent = 0;
    const Time end = pair_.now + kAckTimeout * timeouts;
    while (pair_.now < end) {
      pair_.now = std::min(end, std::max(pair_.now, pair_.first.endpoint.NextDeadline()));
      pair_.first.endpoint.OnDeadline(pair_.now);
      while (!pair_.Send().empty()) ++sent;
    }
    return sent;
  }
  Counters counters() { return pair_.first.endpoint.counters(); }

  static constexpr Duration kAckTimeout{int64_t{4'096} << 14};
  bool has_answered_ = false;  // all frames
  LinkedProcesses pair_;
};

TEST_P(FrozenPeerTest, SilenceOfAPeerThatHasNotAnsweredTakesNoRetryAndSendsNothing) {
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    Post(opcode);
    const auto frame = pair_.Send();
    const std::vector<uint8_t> request(frame.begin(), frame.end());
    EXPECT_EQ(Wait(100), 0);
    EXPECT_EQ(counters().ack_timeouts, 0u);
    EXPECT_EQ(counters().probes, 0u);
    EXPECT_EQ(pair_.Receive(request), DropReason::kNone);
    EXPECT_TRUE(pair_.Answer());
    ASSERT_EQ(pair_.first.Poll().size(), 1u);
  }
  EXPECT_EQ(counters().retransmitted_packets, 0u);
}

// Its queue pair was destroyed, say.
TEST_P(FrozenPeerTest, SilenceOfAPeerThatHasAnsweredTakesAllRetries) {
  Post(SendOpcode::kRdmaWrite);
  (void)pair_.Send();
  has_answered_ = true;
  EXPECT_GE(Wait(8), 7);
  const auto completions = pair_.first.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(completions[0].vendor_error, VendorError::kAckTimeout);
}

TEST_P(FrozenPeerTest, TimeoutCountsFromWhenThePeerRunsAgain) {
  Post(SendOpcode::kRdmaWrite);
  (void)pair_.Send();
  EXPECT_EQ(Wait(50), 0);
  has_answered_ = true;
  EXPECT_GE(Wait(1), 1);
  EXPECT_EQ(counters().ack_timeouts, 1u) << "the first retry";
  EXPECT_TRUE(pair_.first.Poll().empty());
}

TEST_P(FrozenPeerTest, DeadPeerFailsTheRequestThatWaitsAndLaterOnes) {
  Post(SendOpcode::kRdmaWrite);
  (void)pair_.Send();
  const Route to_peer = RouteToBlock(BlockOf(pair_.second.qp->qpn()));
  pair_.first.endpoint.OnPeerGone(Route::kWire);
  EXPECT_EQ(pair_.first.endpoint.TakeLostPeers(), 0);
  pair_.first.endpoint.OnPeerGone(to_peer);
  EXPECT_EQ(pair_.first.endpoint.TakeLostPeers(), 1);
  const auto completions = pair_.first.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(completions[0].vendor_error, VendorError::kPeerGone);
  EXPECT_EQ(pair_.first.qp->state(), QpState::kError);
  pair_.first.endpoint.OnPeerGone(to_peer);
  EXPECT_EQ(pair_.first.endpoint.TakeLostPeers(), 0) << "once";
}

TEST_P(FrozenPeerTest, RequestPostedToADeadPeerFailsWithoutAPacket) {
  pair_.first.endpoint.OnPeerGone(RouteToBlock(BlockOf(pair_.second.qp->qpn())));
  EXPECT_EQ(pair_.first.endpoint.TakeLostPeers(), 0);
  EXPECT_EQ(pair_.first.qp->state(), QpState::kReadyToSend) << "no request has failed";
  Post(SendOpcode::kRdmaWrite);
  EXPECT_TRUE(pair_.Send().empty());
  EXPECT_EQ(pair_.first.endpoint.TakeLostPeers(), 1);
  const auto completions = pair_.first.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(completions[0].vendor_error, VendorError::kPeerGone);
}

TEST_P(FrozenPeerTest, ReplyIsOwedUntilItsLastPacketIsSent) {
  const Route to_first = RouteToBlock(BlockOf(pair_.first.qp->qpn()));
  Post(SendOpcode::kRdmaRead, 2 * kMtuBytes);
  EXPECT_FALSE(pair_.second.endpoint.OwesReply(to_first));
  EXPECT_EQ(pair_.Receive(pair_.Send()), DropReason::kNone);
  EXPECT_TRUE(pair_.second.endpoint.OwesReply(to_first));
  EXPECT_TRUE(pair_.Answer());
  EXPECT_TRUE(pair_.second.endpoint.OwesReply(to_first));
  EXPECT_TRUE(pair_.Answer());
  EXPECT_FALSE(pair_.second.endpoint.OwesReply(to_first));
}

// Requests alone are no replies.
TEST_P(FrozenPeerTest, RequestThatWaitsToBeSentIsNoReply) {
  Post(SendOpcode::kRdmaWrite);
  EXPECT_FALSE(pair_.first.endpoint.OwesReply(RouteToBlock(BlockOf(pair_.second.qp->qpn()))));
}

INSTANTIATE_TEST_SUITE_P(Ways, FrozenPeerTest, ::testing::Bool());

TEST(OtherPeerTest, EveryMessageRequestsAnAckAndNoAckIsWanted) {
  for (const bool signaled : {false, true}) {
    ConnectedPair pair;
    SendWorkRequest request = pair.Request(SendOpcode::kRdmaWrite, 8);
    request.signaled = signaled;
    ASSERT_EQ(pair.client.qp->PostSend(request), Status::kOk);
    const size_t bytes = pair.client.endpoint.PollTransmit(pair.now, Route::kWire, pair.frame);
    const auto frame = std::span(pair.frame).first(bytes);
    EXPECT_TRUE(AsksForAck(frame));
    EXPECT_EQ(pair.server.endpoint.OnFrame(pair.now, frame), DropReason::kNone);
    EXPECT_FALSE(pair.server.endpoint.is_ack_wanted());
  }
}

}  // namespace
}  // namespace uroce::transport
