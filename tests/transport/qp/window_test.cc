// How many packets may be in flight, how often the requester asks for an ACK, and that any number
// of work requests gets through this window (IBA 9.7.1; transport/limits.h).

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/packet_scripts/script.h"
#include "transport/limits.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;
constexpr uint32_t kBytes = Script::kMemoryBytes;  // as many packets as may be in flight
static_assert(kBytes / kPart == kMaxPacketsInFlight);

class WindowTest : public testing::Test {
 protected:
  // Two messages, together twice the packets that may be in flight.
  void PostTwo() {
    script_.PostWrite(1, 0, kBytes);
    script_.PostWrite(2, 0, kBytes);
  }

  Script script_{{.first_psn = Psn(0xff'ff80), .timeout = 8}};
  const Psn first_ = script_.first_psn();
};

TEST_F(WindowTest, NoMoreThanTheWindowIsSent) {
  PostTwo();
  const auto sent = script_.TakeSent();
  ASSERT_EQ(sent.size(), kMaxPacketsInFlight);
  EXPECT_EQ(sent.back().psn, first_ + kMaxPacketsInFlight - 1);
  EXPECT_EQ(sent.back().opcode.position, Position::kLast);
  // Every acknowledged packet makes room for one more.
  for (const uint32_t acknowledged : {1u, 2u, 12u}) {
    script_.Inject(Ack(first_ + acknowledged - 1));
  }
  EXPECT_EQ(script_.TakeSent().size(), 12u);
  script_.Inject(Ack(first_ + kMaxPacketsInFlight - 1));
  script_.ExpectCompletion(1);
  EXPECT_EQ(script_.TakeSent().size(), kMaxPacketsInFlight - 12);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

TEST_F(WindowTest, AnAckIsAskedForBeforeTheWindowIsUsedUp) {
  PostTwo();
  uint32_t asked = 0;
  uint32_t since = 0;
  for (const PacketSpec& packet : script_.TakeSent()) {
    ++since;
    if (!packet.ack_request) continue;
    EXPECT_LE(since, kAckRequestInterval);
    ++asked;
    since = 0;
  }
  EXPECT_GE(asked, kMaxPacketsInFlight / kAckRequestInterval);
  EXPECT_EQ(since, 0u) << "the last packet of the message";
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

// A packet was lost, perhaps because a queue was full: what is sent again is no burst.
TEST_F(WindowTest, ALossIsFollowedByASmallWindowThatGrows) {
  PostTwo();
  EXPECT_EQ(script_.TakeSent().size(), kMaxPacketsInFlight);
  script_.Inject(Nak(first_, NakCode::kPsnSequenceError));
  auto again = script_.TakeSent();
  ASSERT_EQ(again.size(), kFirstResendWindow);
  EXPECT_EQ(again.front().psn, first_);
  EXPECT_TRUE(again.back().ack_request);
  // Two more for each that is acknowledged, until the whole window may be in flight again.
  uint32_t acknowledged = 0;
  for (uint32_t window = kFirstResendWindow; window < kMaxPacketsInFlight; window *= 2) {
    acknowledged += window;
    script_.Inject(Ack(first_ + acknowledged - 1));
    again = script_.TakeSent();
    EXPECT_EQ(again.size(), std::min(2 * window, kMaxPacketsInFlight));
  }
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

// A READ uses the PSNs of its response, which count. It is asked for in pieces: two windows in as
// many as may be outstanding (4), but no piece is larger than half of the window.
TEST_F(WindowTest, AReadIsAskedForInPiecesThatFillTheWindow) {
  constexpr uint32_t kPiece = kMaxPacketsInFlight / 2;
  script_.PostRead(1, 0, kBytes);
  script_.PostRead(2, 0, 8);
  const auto sent = script_.TakeSent();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].reth.dma_length, kPiece * kPart);
  EXPECT_EQ(sent[1].psn, first_ + kPiece);
  EXPECT_EQ(sent[1].reth.virtual_address, sent[0].reth.virtual_address + kPiece * kPart);
  EXPECT_EQ(sent[1].reth.dma_length, kPiece * kPart);
  script_.Inject(ReadResponse(Position::kFirst, first_).With(Pattern(kPart)));
  EXPECT_EQ(script_.TakeSent().size(), 1u);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

// A piece whose response has a gap is asked for again from the gap on, and no further.
TEST_F(WindowTest, AGapInAReadIsAskedForWithinItsPiece) {
  constexpr uint32_t kPiece = kMaxPacketsInFlight / 2;
  script_.PostRead(1, 0, kBytes);
  script_.TakeSent();
  script_.Inject(ReadResponse(Position::kFirst, first_).With(Pattern(kPart)));
  script_.ExpectDropped(DropReason::kOutOfOrderResponse,
                        ReadResponse(Position::kMiddle, first_ + 2).With(Pattern(kPart)));
  const auto again = script_.TakeSent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn, first_ + 1);
  EXPECT_EQ(again[0].reth.dma_length, (kPiece - 1) * kPart);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
