// Two endpoints joined by a wire that loses nothing: every operation end to end, and who a frame is
// delivered to.

#include "transport/endpoint.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "transport/wire/frame_builder.h"

namespace uroce::transport {
namespace {

constexpr PdId kPd{1};
constexpr uint32_t kAllAccess = AccessFlags::kLocalWrite | AccessFlags::kRemoteWrite |
                                AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;

// An endpoint with one memory region, one completion queue and one queue pair.
struct Host {
  explicit Host(uint8_t number)
      : endpoint({.mac = {2, 0, 0, 0, 0, number},
                  .gids = {Gid::LinkLocal({2, 0, 0, 0, 0, number}), Gid::FromIpv4({10, 0, 0, number})}}),
        memory(1 << 20),
        cq(endpoint.CreateCompletionQueue(256, &cq_tag)) {
    key = *endpoint.memory().Register({.pd = kPd,
                                       .iova = address(0),
                                       .host_address = memory.data(),
                                       .length = memory.size(),
                                       .access = AccessFlags(kAllAccess)});
    const QpInitAttributes init = {.pd = kPd,
                                   .send_cq = cq.get(),
                                   .receive_cq = cq.get(),
                                   .capabilities = {.max_send_wr = 64,
                                                    .max_receive_wr = 64,
                                                    .max_send_sge = 4,
                                                    .max_receive_sge = 4,
                                                    .max_inline_bytes = 64},
                                   .context = &qp_tag};
    EXPECT_EQ(endpoint.CreateQueuePair(init, &qp), Status::kOk);
  }

  uint64_t address(size_t offset) { return reinterpret_cast<uint64_t>(memory.data()) + offset; }
  RKey rkey() const { return {key.value}; }

  void Connect(const Gid& gid, const MacAddress& mac, Qpn peer, uint8_t gid_index) {
    using M = QpAttributeMask;
    QpAttributes a;
    a.state = QpState::kInit;
    a.port_num = 1;
    a.access = AccessFlags(kAllAccess);
    ASSERT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
    a.state = QpState::kReadyToReceive;
    a.path_mtu = Mtu::k1024;
    a.destination_qpn = peer;
    a.rq_psn = Psn(0xff'fff0);
    a.max_dest_read_atomic = 4;
    a.min_rnr_timer = 1;
    a.address = {.destination_gid = gid, .destination_mac = mac, .source_gid_index = gid_index};
    ASSERT_EQ(qp->Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                                M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer),
              Status::kOk);
    a.state = QpState::kReadyToSend;
    a.sq_psn = Psn(0xff'fff0);
    a.timeout = 14;
    a.retry_count = 7;
    a.rnr_retry = 7;
    a.max_read_atomic = 4;
    ASSERT_EQ(qp->Modify(a, M::kState | M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry |
                                M::kMaxReadAtomic),
              Status::kOk);
  }

  std::vector<Completion> Poll() {
    std::vector<Completion> completions(64);
    completions.resize(cq->Poll(completions));
    return completions;
  }

  int cq_tag = 0;
  int qp_tag = 0;
  Endpoint endpoint;
  std::vector<uint8_t> memory;
  std::unique_ptr<CompletionQueue> cq;
  LKey key;
  QueuePair* qp = nullptr;
};

class EndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    std::iota(client.memory.begin(), client.memory.end(), uint8_t{1});
    Connect(/*gid_index=*/1);
  }

  void Connect(uint8_t gid_index) {
    const auto& client_config = client.endpoint.config();
    const auto& server_config = server.endpoint.config();
    client.Connect(server_config.gids[gid_index], server_config.mac, server.qp->qpn(), gid_index);
    server.Connect(client_config.gids[gid_index], client_config.mac, client.qp->qpn(), gid_index);
  }

  // Carries frames both ways until there are none.
  void Run() {
    for (bool moved = true; moved;) {
      moved = Move(client.endpoint, server.endpoint) | Move(server.endpoint, client.endpoint);
    }
  }
  bool Move(Endpoint& from, Endpoint& to) {
    bool moved = false;
    while (const size_t bytes = from.PollTransmit(now, Route::kWire, frame)) {
      moved = true;
      last_drop = to.OnFrame(now, std::span(frame).first(bytes));
    }
    return moved;
  }

  SendWorkRequest Request(SendOpcode opcode, uint32_t length) {
    sge = {client.address(0), length, client.key};
    SendWorkRequest request;
    request.wr_id = 7;
    request.opcode = opcode;
    request.signaled = true;
    request.remote_address = server.address(4096);
    request.rkey = server.rkey();
    request.sges = {&sge, 1};
    return request;
  }
  void PostReceive(uint32_t length) {
    const ScatterGatherEntry receive = {server.address(0), length, server.key};
    ASSERT_EQ(server.qp->PostReceive({.wr_id = 9, .sges = {&receive, 1}}), Status::kOk);
  }

  Host client{1};
  Host server{2};
  Time now{1'000};
  std::array<uint8_t, kMaxFrameBytes> frame;
  DropReason last_drop = DropReason::kNone;
  ScatterGatherEntry sge;
};

TEST_F(EndpointTest, SendFillsTheReceiveAndCompletesOnBothSides) {
  PostReceive(5000);
  SendWorkRequest request = Request(SendOpcode::kSendWithImmediate, 5000);
  request.immediate = 0x11223344;
  ASSERT_EQ(client.qp->PostSend(request), Status::kOk);
  Run();

  EXPECT_EQ(std::memcmp(server.memory.data(), client.memory.data(), 5000), 0);
  const auto received = server.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 9u);
  EXPECT_EQ(received[0].status, CompletionStatus::kSuccess);
  EXPECT_EQ(received[0].opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(received[0].byte_length, 5000u);
  EXPECT_EQ(received[0].flags, Completion::kHasImmediate);
  EXPECT_EQ(received[0].immediate_or_rkey, 0x11223344u);
  EXPECT_EQ(received[0].source_qpn, client.qp->qpn());
  const auto sent = client.Poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, 7u);
  EXPECT_EQ(sent[0].opcode, CompletionOpcode::kSend);
}

TEST_F(EndpointTest, WriteLandsAcrossThePsnWrap) {
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaWrite, 100'000)), Status::kOk);
  Run();
  EXPECT_EQ(std::memcmp(server.memory.data() + 4096, client.memory.data(), 100'000), 0);
  ASSERT_EQ(client.Poll().size(), 1u);
  EXPECT_TRUE(server.Poll().empty());
  EXPECT_EQ(client.qp->Query().sq_psn, Psn(0xff'fff0) + 98);
  EXPECT_EQ(server.qp->Query().rq_psn, Psn(0xff'fff0) + 98);
}

TEST_F(EndpointTest, ReadFetches) {
  std::iota(server.memory.begin(), server.memory.end(), uint8_t{77});
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaRead, 10'001)), Status::kOk);
  Run();
  EXPECT_EQ(std::memcmp(server.memory.data() + 4096, client.memory.data(), 10'001), 0);
  const auto done = client.Poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kRdmaRead);
  EXPECT_EQ(done[0].byte_length, 10'001u);
}

TEST_F(EndpointTest, AtomicsReturnTheOriginalAndChangeMemory) {
  const uint64_t before = 40;
  std::memcpy(server.memory.data() + 4096, &before, sizeof(before));
  SendWorkRequest add = Request(SendOpcode::kFetchAndAdd, 8);
  add.compare_or_add = 2;
  ASSERT_EQ(client.qp->PostSend(add), Status::kOk);
  Run();
  uint64_t fetched;
  std::memcpy(&fetched, client.memory.data(), sizeof(fetched));
  EXPECT_EQ(fetched, 40u);

  SendWorkRequest swap = Request(SendOpcode::kCompareAndSwap, 8);
  swap.compare_or_add = 42;
  swap.swap = 1;
  ASSERT_EQ(client.qp->PostSend(swap), Status::kOk);
  Run();
  std::memcpy(&fetched, client.memory.data(), sizeof(fetched));
  EXPECT_EQ(fetched, 42u);
  uint64_t after;
  std::memcpy(&after, server.memory.data() + 4096, sizeof(after));
  EXPECT_EQ(after, 1u);
  EXPECT_EQ(client.Poll().size(), 2u);
}

TEST_F(EndpointTest, WrongRkeyEndsTheConnectionOnBothSides) {
  SendWorkRequest request = Request(SendOpcode::kRdmaWrite, 100);
  request.rkey = RKey{request.rkey.value + 1};
  ASSERT_EQ(client.qp->PostSend(request), Status::kOk);
  Run();
  const auto done = client.Poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(client.qp->state(), QpState::kError);
  EXPECT_EQ(server.qp->state(), QpState::kError);
  const auto event = server.endpoint.TakeEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, EventType::kQpAccessError);
  EXPECT_EQ(event->context, &server.qp_tag);
}

TEST_F(EndpointTest, ReceiverNotReadyIsRetriedAfterItsTimer) {
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 10)), Status::kOk);
  Run();
  EXPECT_TRUE(client.Poll().empty());
  EXPECT_EQ(server.endpoint.counters().rnr_naks_sent, 1u);

  PostReceive(10);
  EXPECT_EQ(client.endpoint.NextDeadline(), now + Microseconds(10));
  now = client.endpoint.NextDeadline();
  client.endpoint.OnDeadline(now);
  Run();
  EXPECT_EQ(client.Poll().size(), 1u);
  EXPECT_EQ(server.Poll().size(), 1u);
}

TEST_F(EndpointTest, FrameForAnUnknownQpIsDroppedAndCounted) {
  server.endpoint.DestroyQueuePair(server.qp);
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 0)), Status::kOk);
  Move(client.endpoint, server.endpoint);
  EXPECT_EQ(last_drop, DropReason::kUnknownQp);
  EXPECT_EQ(server.endpoint.counters().drops(DropReason::kUnknownQp), 1u);
}

}  // namespace
}  // namespace uroce::transport
