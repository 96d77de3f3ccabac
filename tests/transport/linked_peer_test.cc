// Which ACKs a requester asks for on a link, and when the other ACKs come.

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tests/transport/linked_processes.h"
#include "transport/limits.h"
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

// With the short ways and without.
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
  for (int i = 0; i < 3; ++i) {  // the first one raises an event and takes no short way
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
  pair_.Receive(pair_.Send());  // the first packet again
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
