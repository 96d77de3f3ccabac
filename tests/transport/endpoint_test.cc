// Two endpoints joined by a wire that loses nothing: every operation end to end, and which queue
// pair gets a frame.

#include "transport/endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "transport/limits.h"
#include "transport/qp/shared_receive_queue.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

class EndpointTest : public testing::TestWithParam<IcrcUse>, protected ConnectedPair {
 protected:
  void SetUp() override {
    icrc = GetParam();
    std::iota(client.memory.begin(), client.memory.end(), uint8_t{1});
  }
  void WriteWithWrongRkey() {
    SendWorkRequest request = Request(SendOpcode::kRdmaWrite, 100);
    request.rkey = RKey{request.rkey.value + 1};
    ASSERT_EQ(client.qp->PostSend(request), Status::kOk);
    Exchange();
  }
};

INSTANTIATE_TEST_SUITE_P(Icrc, EndpointTest,
                         testing::Values(IcrcUse::kCarried, IcrcUse::kWaived,
                                         IcrcUse::kWaivedWithHeaders));

TEST_P(EndpointTest, SendFillsTheReceiveAndCompletesOnBothSides) {
  PostReceive(5000);
  SendWorkRequest request = Request(SendOpcode::kSendWithImmediate, 5000);
  request.immediate = 0x11223344;
  ASSERT_EQ(client.qp->PostSend(request), Status::kOk);
  Exchange();

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

TEST_P(EndpointTest, WriteLandsAcrossThePsnWrap) {
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaWrite, 100'000)), Status::kOk);
  Exchange();
  EXPECT_EQ(std::memcmp(server.memory.data() + 4096, client.memory.data(), 100'000), 0);
  ASSERT_EQ(client.Poll().size(), 1u);
  EXPECT_TRUE(server.Poll().empty());
  EXPECT_EQ(client.qp->Query().sq_psn, kFirstPsn + 98);
  EXPECT_EQ(server.qp->Query().rq_psn, kFirstPsn + 98);
}

TEST_P(EndpointTest, ReadFetches) {
  std::iota(server.memory.begin(), server.memory.end(), uint8_t{77});
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaRead, 10'001)), Status::kOk);
  Exchange();
  EXPECT_EQ(std::memcmp(server.memory.data() + 4096, client.memory.data(), 10'001), 0);
  const auto done = client.Poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, CompletionOpcode::kRdmaRead);
  EXPECT_EQ(done[0].byte_length, 10'001u);
}

TEST_P(EndpointTest, AtomicsReturnTheOriginalAndChangeMemory) {
  const uint64_t before = 40;
  std::memcpy(server.memory.data() + 4096, &before, sizeof(before));
  SendWorkRequest add = Request(SendOpcode::kFetchAndAdd, 8);
  add.compare_or_add = 2;
  ASSERT_EQ(client.qp->PostSend(add), Status::kOk);
  Exchange();
  uint64_t fetched;
  std::memcpy(&fetched, client.memory.data(), sizeof(fetched));
  EXPECT_EQ(fetched, 40u);

  SendWorkRequest swap = Request(SendOpcode::kCompareAndSwap, 8);
  swap.compare_or_add = 42;
  swap.swap = 1;
  ASSERT_EQ(client.qp->PostSend(swap), Status::kOk);
  Exchange();
  std::memcpy(&fetched, client.memory.data(), sizeof(fetched));
  EXPECT_EQ(fetched, 42u);
  uint64_t after;
  std::memcpy(&after, server.memory.data() + 4096, sizeof(after));
  EXPECT_EQ(after, 1u);
  EXPECT_EQ(client.Poll().size(), 2u);
}

TEST_P(EndpointTest, WrongRkeyEndsTheConnectionOnBothSides) {
  WriteWithWrongRkey();
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

TEST_P(EndpointTest, ReceiverNotReadyIsRetriedAfterItsTimer) {
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 10)), Status::kOk);
  Exchange();
  EXPECT_TRUE(client.Poll().empty());
  EXPECT_EQ(server.endpoint.counters().rnr_naks_sent, 1u);

  PostReceive(10);
  EXPECT_EQ(client.endpoint.NextDeadline(), now + Microseconds(10));
  now = client.endpoint.NextDeadline();
  client.endpoint.OnDeadline(now);
  Exchange();
  EXPECT_EQ(client.Poll().size(), 1u);
  EXPECT_EQ(server.Poll().size(), 1u);
}

TEST_P(EndpointTest, ADestroyedQueuePairTakesItsEventsWithIt) {
  WriteWithWrongRkey();
  server.endpoint.DestroyQueuePair(server.qp);
  EXPECT_FALSE(server.endpoint.TakeEvent().has_value());
}

TEST_P(EndpointTest, ADestroyedQueuePairTakesItsTimerWithIt) {
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 10)), Status::kOk);
  ASSERT_NE(client.endpoint.PollTransmit(now, Route::kWire, frame), 0u);
  ASSERT_NE(client.endpoint.NextDeadline(), kNever);
  client.endpoint.DestroyQueuePair(client.qp);
  EXPECT_EQ(client.endpoint.NextDeadline(), kNever);
}

TEST_P(EndpointTest, FramesGoToTheNewEthernetAddressOfANeighbor) {
  const MacAddress moved = {2, 7, 7, 7, 7, 7};
  const Gid peer = client.qp->Query().address.destination_gid;
  QueuePair* unconnected = nullptr;
  ASSERT_EQ(client.endpoint.CreateQueuePair(client.qp->init_attributes(), &unconnected),
            Status::kOk);
  client.endpoint.UpdateNeighbor(Gid{}, moved);
  client.endpoint.UpdateNeighbor(peer, moved);
  client.endpoint.UpdateNeighbor(Gid::FromIpv4({10, 9, 9, 9}), {2, 8, 8, 8, 8, 8});
  EXPECT_EQ(client.qp->Query().address.destination_mac, moved);
  EXPECT_EQ(unconnected->Query().address.destination_mac, MacAddress{});

  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 10)), Status::kOk);
  ASSERT_NE(client.endpoint.PollTransmit(now, Route::kWire, frame), 0u);
  EXPECT_TRUE(std::equal(moved.begin(), moved.end(), frame.begin()));
}

// Tests a request and its acknowledgement.
TEST_P(EndpointTest, RoomDecidesWhetherAFrameCarriesItsIcrc) {
  for (const IcrcUse use : {IcrcUse::kWaived, IcrcUse::kCarried}) {
    const bool has_one = use == IcrcUse::kCarried;
    ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaWrite, 100)), Status::kOk);
    for (auto [from, to] : {std::pair(&client, &server), std::pair(&server, &client)}) {
      const FrameRoom room(frame, use);
      const size_t bytes = from->endpoint.PollTransmit(now, Route::kWire, room);
      ASSERT_NE(bytes, 0u);
      EXPECT_EQ(Load32(&frame[bytes - kIcrcBytes]) != 0, has_one);
      EXPECT_EQ(to->endpoint.OnFrame(now, std::span(frame).first(bytes), Route::kWire, use),
                DropReason::kNone);
    }
    EXPECT_EQ(client.Poll().size(), 1u);
  }
}

TEST_P(EndpointTest, CompletionsOfADestroyedQueuePairAreDropped) {
  const auto send_cq = server.endpoint.CreateCompletionQueue(16, nullptr);
  const auto receive_cq = server.endpoint.CreateCompletionQueue(16, nullptr);
  const auto create = [&] {
    QueuePair* qp = nullptr;
    const QpInitAttributes init = {.pd = kTestPd,
                                   .send_cq = send_cq.get(),
                                   .receive_cq = receive_cq.get(),
                                   .capabilities = {.max_send_wr = 2, .max_receive_wr = 2}};
    EXPECT_EQ(server.endpoint.CreateQueuePair(init, &qp), Status::kOk);
    QpAttributes attributes;
    attributes.state = QpState::kInit;
    attributes.port_num = 1;
    using M = QpAttributeMask;
    EXPECT_EQ(qp->Modify(attributes, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags),
              Status::kOk);
    attributes.state = QpState::kError;
    EXPECT_EQ(qp->Modify(attributes, M::kState), Status::kOk);
    EXPECT_EQ(qp->PostReceive({.wr_id = qp->qpn().value, .sges = {}}), Status::kOk);
    SendWorkRequest send;
    send.wr_id = qp->qpn().value;
    EXPECT_EQ(qp->PostSend(send), Status::kOk);
    return qp;
  };
  QueuePair* const gone = create();
  QueuePair* const other = create();
  server.endpoint.DestroyQueuePair(gone);
  for (CompletionQueue* cq : {send_cq.get(), receive_cq.get()}) {
    std::array<Completion, 4> left;
    ASSERT_EQ(cq->Poll(left), 1u);
    EXPECT_EQ(left[0].wr_id, other->qpn().value);
  }
  server.endpoint.DestroyQueuePair(other);
}

TEST_P(EndpointTest, EveryQueuePairHasSomeRoomForInlineData) {
  for (const uint32_t wanted : {0u, 64u, kMinInlineBytes, kMaxInlineBytes}) {
    QpInitAttributes init = client.qp->init_attributes();
    init.capabilities.max_inline_bytes = wanted;
    QueuePair* qp = nullptr;
    ASSERT_EQ(client.endpoint.CreateQueuePair(init, &qp), Status::kOk);
    EXPECT_EQ(qp->init_attributes().capabilities.max_inline_bytes,
              std::max(wanted, kMinInlineBytes));
    client.endpoint.DestroyQueuePair(qp);
  }
}

// Capabilities over the limits are refused, not reduced.
TEST_P(EndpointTest, CapabilitiesOverTheLimitsAreRefused) {
  using Capability = uint32_t QpCapabilities::*;
  const std::vector<std::pair<Capability, uint32_t>> limits = {
      {&QpCapabilities::max_send_wr, kMaxQpWorkRequests},
      {&QpCapabilities::max_receive_wr, kMaxQpWorkRequests},
      {&QpCapabilities::max_send_sge, kMaxSges},
      {&QpCapabilities::max_receive_sge, kMaxSges},
      {&QpCapabilities::max_inline_bytes, kMaxInlineBytes}};
  for (const auto& [capability, limit] : limits) {
    QpInitAttributes init = client.qp->init_attributes();
    QueuePair* qp = nullptr;
    init.capabilities.*capability = limit + 1;
    EXPECT_EQ(client.endpoint.CreateQueuePair(init, &qp), Status::kInvalidArgument);
    init.capabilities.*capability = limit;
    ASSERT_EQ(client.endpoint.CreateQueuePair(init, &qp), Status::kOk);
    EXPECT_EQ(qp->init_attributes().capabilities.*capability, limit);
    client.endpoint.DestroyQueuePair(qp);
  }
}

TEST_P(EndpointTest, RequestsThatNoQueueCanCarryOutAreRefused) {
  const std::vector<ScatterGatherEntry> many(5, {client.address(0), 1, client.key});
  SendWorkRequest request = Request(SendOpcode::kSend, 8);
  request.sges = many;  // the queue pair has room for four
  EXPECT_EQ(client.qp->PostSend(request), Status::kInvalidArgument);
  request.sges = std::span(many).first(4);
  EXPECT_EQ(client.qp->PostSend(request), Status::kOk);
  EXPECT_EQ(client.qp->PostReceive({.wr_id = 1, .sges = many}), Status::kInvalidArgument);

  const std::array<ScatterGatherEntry, 2> long_list = {{{0, 1u << 31, client.key}, {0, 1, {}}}};
  request.sges = long_list;  // IBA C9-94
  EXPECT_EQ(client.qp->PostSend(request), Status::kInvalidArgument);
  for (const uint32_t length : {0u, 7u, 9u}) {
    EXPECT_EQ(client.qp->PostSend(Request(SendOpcode::kFetchAndAdd, length)),
              Status::kInvalidArgument);
    EXPECT_EQ(client.qp->PostSend(Request(SendOpcode::kAtomicWrite, length)),
              Status::kInvalidArgument);
  }
}

TEST_P(EndpointTest, RequestsThatArePostedTogetherArePostedAllOrNone) {
  const std::array requests = {Request(SendOpcode::kRdmaWrite, 8),
                               Request(SendOpcode::kFetchAndAdd, 7)};
  EXPECT_EQ(client.qp->PostSends(requests), Status::kInvalidArgument);
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kRdmaWrite, 8)), Status::kOk);
  Exchange();
  EXPECT_EQ(client.Poll().size(), 1u);
  EXPECT_EQ(client.endpoint.counters().transmitted_packets, 1u);
}

TEST_P(EndpointTest, SharedReceiveQueueResizeBelowPostedOrLimitIsRefused) {
  auto srq = client.endpoint.CreateSharedReceiveQueue(
      {.pd = kTestPd, .max_work_requests = 4, .max_sges = 2});
  EXPECT_EQ(srq->SetLimit(5), Status::kInvalidArgument);
  EXPECT_EQ(srq->limit(), 0u);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(srq->Post({.wr_id = 1, .sges = {}}), Status::kOk);
  EXPECT_EQ(srq->Resize(2), Status::kInvalidArgument);
  EXPECT_EQ(srq->Resize(3), Status::kOk);
  ASSERT_EQ(srq->Resize(8), Status::kOk);
  ASSERT_EQ(srq->SetLimit(8), Status::kOk);
  EXPECT_EQ(srq->Resize(7), Status::kInvalidArgument);
  EXPECT_EQ(srq->capacity(), 8u);
  client.endpoint.DestroySharedReceiveQueue(std::move(srq));
}

TEST_P(EndpointTest, SharedReceiveQueueHasLimitsToo) {
  const SrqInitAttributes good = {.pd = kTestPd, .max_work_requests = 4, .max_sges = 2, .limit = 4};
  auto bad = std::array{good, good, good, good};
  bad[0].max_work_requests = 0;
  bad[1].max_work_requests = kMaxSrqWorkRequests + 1;
  bad[2].max_sges = kMaxSges + 1;
  bad[3].limit = 5;
  for (const SrqInitAttributes& attributes : bad) {
    EXPECT_EQ(client.endpoint.CreateSharedReceiveQueue(attributes), nullptr);
  }
  auto srq = client.endpoint.CreateSharedReceiveQueue(good);
  ASSERT_NE(srq, nullptr);

  // A queue pair with a shared receive queue has no receive queue of its own.
  QpInitAttributes init = client.qp->init_attributes();
  init.srq = srq.get();
  QueuePair* qp = nullptr;
  ASSERT_EQ(client.endpoint.CreateQueuePair(init, &qp), Status::kOk);
  EXPECT_EQ(qp->init_attributes().capabilities.max_receive_wr, 0u);
  EXPECT_EQ(qp->init_attributes().capabilities.max_receive_sge, 0u);
  client.endpoint.DestroyQueuePair(qp);
  client.endpoint.DestroySharedReceiveQueue(std::move(srq));
}

class QpnTest : public testing::Test {
 protected:
  static EndpointConfig Config(const Seed& seed, uint32_t count) {
    EndpointConfig config;
    config.first_qpn = Qpn{0x4000};
    config.qpn_count = count;
    config.seed = seed;
    return config;
  }
  static std::vector<Qpn> Create(TestHost& host, size_t count) {
    std::vector<Qpn> qpns;
    for (size_t i = 0; i < count; ++i) {
      QueuePair* qp = nullptr;
      EXPECT_EQ(host.endpoint.CreateQueuePair(host.qp->init_attributes(), &qp), Status::kOk);
      if (qp != nullptr) qpns.push_back(qp->qpn());
    }
    return qpns;
  }
};

TEST_F(QpnTest, NumbersFollowFromTheSeedAlone) {
  TestHost a(Config({1, 2}, kMaxQps)), same(Config({1, 2}, kMaxQps)),
      other(Config({1, 3}, kMaxQps));
  const auto qpns = Create(a, 20);
  EXPECT_EQ(qpns, Create(same, 20));
  EXPECT_NE(qpns, Create(other, 20));
  // The numbers are not consecutive.
  size_t neighbours = 0;
  for (size_t i = 1; i < qpns.size(); ++i) neighbours += qpns[i].value == qpns[i - 1].value + 1;
  EXPECT_LT(neighbours, 3u);
}

TEST_F(QpnTest, WholeBlockIsUsed) {
  constexpr uint32_t kCount = 64;
  TestHost host(Config({}, kCount));
  std::vector<Qpn> qpns = Create(host, kCount - 1);
  qpns.push_back(host.qp->qpn());
  std::sort(qpns.begin(), qpns.end());
  for (uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(qpns[i], Qpn{0x4000 + i});
  QueuePair* one_more = nullptr;
  EXPECT_EQ(host.endpoint.CreateQueuePair(host.qp->init_attributes(), &one_more),
            Status::kNoMemory);
}

// Packets to the old queue pair may still be under way.
TEST_F(QpnTest, NumberOfADestroyedQueuePairRests) {
  constexpr uint32_t kCount = 64;
  TestHost host(Config({}, kCount));
  for (int round = 0; round < 100; ++round) {
    const Qpn gone = Create(host, 1)[0];
    host.endpoint.DestroyQueuePair(host.endpoint.Find(gone));
    for (const Qpn qpn : Create(host, kCount / 4)) {
      EXPECT_NE(qpn, gone);
      host.endpoint.DestroyQueuePair(host.endpoint.Find(qpn));
    }
  }
}

TEST_P(EndpointTest, FrameForAnUnknownQpIsDroppedAndCounted) {
  server.endpoint.DestroyQueuePair(server.qp);
  ASSERT_EQ(client.qp->PostSend(Request(SendOpcode::kSend, 0)), Status::kOk);
  Move(client.endpoint, server.endpoint);
  EXPECT_EQ(last_drop, DropReason::kUnknownQp);
  EXPECT_EQ(server.endpoint.counters().drops(DropReason::kUnknownQp), 1u);
}

}  // namespace
}  // namespace uroce::transport
