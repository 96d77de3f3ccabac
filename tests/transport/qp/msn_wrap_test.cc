// 2^24 requests on one connection: the MSN of the responder and the SSN of the requester start
// again at 0, and end-to-end credits, which refer to them, still work (IBA C9-148, 9.7.7.2).

#include <gtest/gtest.h>

#include <array>

#include "tests/transport/connected_pair.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kBatch = 64;

// WRITEs of zero bytes: each is one packet and one message.
void Write(ConnectedPair& pair, uint32_t batches) {
  SendWorkRequest request;
  request.opcode = SendOpcode::kRdmaWrite;
  for (uint32_t sent = 0; sent < batches; ++sent) {
    std::array<SendWorkRequest, kBatch> batch;
    batch.fill(request);
    batch.back().signaled = true;
    ASSERT_EQ(pair.client.qp->PostSends(batch), Status::kOk);
    pair.Exchange();
    ASSERT_EQ(pair.client.Poll().size(), 1u);
  }
}

TEST(MsnWrapTest, CreditsGoOnBehindTheWrap) {
  ConnectedPair pair;
  // One SEND first, whose ACK shows the client that the server counts credits.
  pair.PostReceive(16);
  ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kSend, 1)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.server.Poll().size(), 1u);
  EXPECT_EQ(pair.client.Poll().size(), 1u);

  Write(pair, (1u << 24) / kBatch - 3);
  // From 191 messages before the wrap to 353 after it: the client sends one message for each
  // receive request of the server, and one more as a probe.
  for (int round = 0; round < 8; ++round) {
    const uint64_t asked = pair.server.endpoint.counters().rnr_naks_sent;
    for (int i = 0; i < 3; ++i) pair.PostReceive(16);
    Write(pair, 1);  // their ACK brings the credits
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kSend, 1)), Status::kOk);
    }
    pair.Exchange();
    EXPECT_EQ(pair.server.Poll().size(), 3u) << "round " << round;
    EXPECT_EQ(pair.server.endpoint.counters().rnr_naks_sent, asked + 1);
    pair.PostReceive(16);
    pair.now = pair.now + Milliseconds(1);  // min_rnr_timer 1 is 10 us
    pair.client.endpoint.OnDeadline(pair.now);
    pair.Exchange();
    EXPECT_EQ(pair.server.Poll().size(), 1u);
    EXPECT_EQ(pair.client.Poll().size(), 4u);
  }
  EXPECT_EQ(pair.client.qp->state(), QpState::kReadyToSend);
}

}  // namespace
}  // namespace uroce::transport
