// Requests posted in their plain form.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "tests/transport/qp/sample_queue_pair.h"
#include "transport/limits.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

PlainSendRequest ToPlain(const SendWorkRequest& request) {
  return {.opcode = request.opcode,
          .signaled = request.signaled,
          .solicited = request.solicited,
          .wr_id = request.wr_id,
          .piece = request.sges.front(),
          .remote_address = request.remote_address,
          .rkey = request.rkey};
}

Status Post(QueuePair& qp, const PlainSendRequest& request) {
  const Status status = qp.QueueSend(request);
  if (status == Status::kOk) qp.SendsPosted();
  return status;
}

// The frames that the client sends for the request, and the completion.
struct Outcome {
  std::vector<std::vector<uint8_t>> frames;
  std::vector<Completion> completions;
};

Outcome Carry(ConnectedPair& pair) {
  Outcome outcome;
  std::vector<uint8_t> frame(kMaxFrameBytes);
  while (const size_t bytes =
             pair.client.endpoint.PollTransmit(pair.now, Route::kWire, FrameRoom(frame))) {
    outcome.frames.emplace_back(frame.begin(), frame.begin() + static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(pair.server.endpoint.OnFrame(pair.now, outcome.frames.back()), DropReason::kNone);
  }
  pair.Exchange();
  outcome.completions = pair.client.Poll();
  return outcome;
}

class PlainSendTest : public testing::TestWithParam<SendOpcode> {};

TEST_P(PlainSendTest, MatchesTheWholeForm) {
  for (const uint32_t length : {1u, 64u, 1'024u, 5'000u}) {
    for (const bool solicited : {false, true}) {
      ConnectedPair whole, plain;
      for (ConnectedPair* pair : {&whole, &plain}) {
        std::iota(pair->client.memory.begin(), pair->client.memory.end(), uint8_t{1});
        pair->PostReceive(8'192);
      }
      // The memory of each pair has addresses of its own, which frames carry.
      SendWorkRequest of_whole = whole.Request(GetParam(), length);
      SendWorkRequest of_plain = plain.Request(GetParam(), length);
      of_whole.solicited = of_plain.solicited = solicited;
      ASSERT_EQ(whole.client.qp->PostSend(of_whole), Status::kOk);
      ASSERT_EQ(Post(*plain.client.qp, ToPlain(of_plain)), Status::kOk);
      const Outcome expected = Carry(whole);
      const Outcome outcome = Carry(plain);

      ASSERT_EQ(outcome.frames.size(), expected.frames.size());
      constexpr size_t kBthAt = 14 + 20 + 8;
      for (size_t i = 0; i < expected.frames.size(); ++i) {
        const std::span<const uint8_t> a(expected.frames[i]), b(outcome.frames[i]);
        ASSERT_EQ(a.size(), b.size());
        EXPECT_TRUE(std::ranges::equal(a.first(kBthAt + 4), b.first(kBthAt + 4)));
        Packet packet;
        ASSERT_EQ(ParseFrame(b, packet), DropReason::kNone);
        EXPECT_EQ(packet.solicited, solicited && packet.opcode.EndsMessage());
      }
      ASSERT_EQ(outcome.completions.size(), 1u);
      ASSERT_EQ(expected.completions.size(), 1u);
      EXPECT_EQ(outcome.completions[0].status, CompletionStatus::kSuccess);
      EXPECT_EQ(outcome.completions[0].wr_id, expected.completions[0].wr_id);
      EXPECT_EQ(outcome.completions[0].opcode, expected.completions[0].opcode);
      EXPECT_EQ(outcome.completions[0].byte_length, length);
      EXPECT_EQ(plain.server.memory, whole.server.memory);
    }
  }
}

TEST_P(PlainSendTest, UnsignaledRequestRaisesNoCompletion) {
  ConnectedPair pair;
  pair.PostReceive(64);
  PlainSendRequest request = ToPlain(pair.Request(GetParam(), 64));
  request.signaled = false;
  ASSERT_EQ(Post(*pair.client.qp, request), Status::kOk);
  EXPECT_TRUE(Carry(pair).completions.empty());
  EXPECT_FALSE(pair.client.qp->AwaitsResponses());
}

TEST_P(PlainSendTest, TakesThePlaceOfAnyRequestBefore) {
  ConnectedPair pair;
  const uint32_t depth = pair.client.qp->init_attributes().capabilities.max_send_wr;
  // A fenced request in pieces leaves nothing in its entry for a later plain request.
  for (uint32_t i = 0; i < depth; ++i) {
    SendWorkRequest request = pair.Request(SendOpcode::kRdmaWrite, 64);
    request.fence = true;
    const std::array pieces = {pair.sge, pair.sge};
    request.sges = pieces;
    ASSERT_EQ(pair.client.qp->PostSend(request), Status::kOk);
    pair.Exchange();
  }
  EXPECT_EQ(pair.client.Poll().size(), depth);
  for (uint32_t i = 0; i < depth; ++i) {
    pair.PostReceive(64);
    ASSERT_EQ(Post(*pair.client.qp, ToPlain(pair.Request(GetParam(), 8))), Status::kOk);
    const Outcome outcome = Carry(pair);
    ASSERT_EQ(outcome.frames.size(), 1u);
    ASSERT_EQ(outcome.completions.size(), 1u);
    EXPECT_EQ(outcome.completions[0].byte_length, 8u);
  }
}

INSTANTIATE_TEST_SUITE_P(Opcodes, PlainSendTest,
                         testing::Values(SendOpcode::kSend, SendOpcode::kRdmaWrite));

TEST(PlainSendRefusalTest, QueueThatIsFull) {
  ConnectedPair pair;
  const PlainSendRequest request = ToPlain(pair.Request(SendOpcode::kRdmaWrite, 64));
  const uint32_t depth = pair.client.qp->init_attributes().capabilities.max_send_wr;
  for (uint32_t i = 0; i < depth; ++i) ASSERT_EQ(Post(*pair.client.qp, request), Status::kOk);
  EXPECT_EQ(Post(*pair.client.qp, request), Status::kNoMemory);
  EXPECT_EQ(Carry(pair).completions.size(), depth);
  EXPECT_EQ(Post(*pair.client.qp, request), Status::kOk);
}

TEST(PlainSendRefusalTest, MessageThatIsTooLong) {
  ConnectedPair pair;
  PlainSendRequest request = ToPlain(pair.Request(SendOpcode::kRdmaWrite, 64));
  request.piece.length = kMaxMessageBytes + 1;
  EXPECT_EQ(pair.client.qp->QueueSend(request), Status::kInvalidArgument);
}

TEST(PlainSendRefusalTest, QueueWithoutPieces) {
  TestHost host(1);
  QueuePair* qp = nullptr;
  QpInitAttributes init = host.qp->init_attributes();
  init.capabilities.max_send_sge = 0;
  ASSERT_EQ(host.endpoint.CreateQueuePair(init, &qp), Status::kOk);
  host.qp = qp;
  host.Connect(host.endpoint.config().gids[1], host.endpoint.config().mac, qp->qpn(), 1,
               Mtu::k1024);
  const PlainSendRequest request = {.opcode = SendOpcode::kRdmaWrite,
                                    .piece = {host.address(0), 8, host.key}};
  EXPECT_EQ(qp->QueueSend(request), Status::kInvalidArgument);
}

TEST(PlainSendRefusalTest, StateOrServiceThatDoesNotSend) {
  const PlainSendRequest request = {.opcode = SendOpcode::kSend, .piece = {0, 8, {}}};
  for (const QpState state : {QpState::kReset, QpState::kInit, QpState::kReadyToReceive}) {
    SampleQueuePair qp(QpType::kReliableConnection, state);
    EXPECT_EQ(qp->QueueSend(request), Status::kInvalidArgument);
  }
  for (const QpType type : {QpType::kUnreliableConnection, QpType::kUnreliableDatagram}) {
    SampleQueuePair qp(type, QpState::kReadyToSend);
    EXPECT_EQ(qp->QueueSend(request), Status::kInvalidArgument);
  }
}

TEST(PlainSendRefusalTest, RequestThatIsPostedAfterAnErrorIsFlushed) {
  ConnectedPair pair;
  QpAttributes attributes;
  attributes.state = QpState::kError;
  ASSERT_EQ(pair.client.qp->Modify(attributes, QpAttributeMask::kState), Status::kOk);
  ASSERT_EQ(Post(*pair.client.qp, ToPlain(pair.Request(SendOpcode::kSend, 8))), Status::kOk);
  const std::vector<Completion> completions = pair.client.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kFlushed);
}

}  // namespace
}  // namespace uroce::transport
