// Raw packet queue pairs: the application sends and receives whole Ethernet frames.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "transport/qp/shared_receive_queue.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;

constexpr uint32_t kHeaderBytes = 14;

// An endpoint with a raw packet queue pair that is ready to send.
struct RawHost {
  explicit RawHost(uint32_t port_mtu)
      : host({.mac = {2, 0, 0, 0, 0, 1},
              .gids = {Gid::LinkLocal({2, 0, 0, 0, 0, 1})},
              .port_mtu = port_mtu}) {
    init = host.qp->init_attributes();
    init.type = QpType::kRawPacket;
    qp = Create();
    for (size_t i = 0; i < host.memory.size(); ++i) host.memory[i] = static_cast<uint8_t>(i * 7);
  }

  QueuePair* Create() {
    QueuePair* created = nullptr;
    EXPECT_EQ(host.endpoint.CreateQueuePair(init, &created), Status::kOk);
    BringUp(*created);
    return created;
  }
  // The kernel's attribute masks: the port in INIT, nothing afterwards.
  static void BringUp(QueuePair& created) {
    QpAttributes a;
    a.port_num = 1;
    a.state = QpState::kInit;
    ASSERT_EQ(created.Modify(a, M::kState | M::kPort), Status::kOk);
    a.state = QpState::kReadyToReceive;
    ASSERT_EQ(created.Modify(a, M::kState), Status::kOk);
    a.state = QpState::kReadyToSend;
    ASSERT_EQ(created.Modify(a, M::kState), Status::kOk);
  }

  ScatterGatherEntry Sge(size_t offset, uint32_t length) {
    return {host.address(offset), length, host.key};
  }
  Status Send(std::vector<ScatterGatherEntry> sges, bool is_inline = false) {
    SendWorkRequest request;
    request.wr_id = 7;
    request.signaled = true;
    request.inline_data = is_inline;
    request.sges = sges;
    return qp->PostSend(request);
  }
  void Receive(std::vector<ScatterGatherEntry> sges) {
    ASSERT_EQ(qp->PostReceive({.wr_id = 9, .sges = sges}), Status::kOk);
  }
  std::vector<uint8_t> Transmitted() {
    std::array<uint8_t, kMaxFrameBytes> room;
    const size_t bytes = host.endpoint.PollTransmit(now, Route::kWire, room);
    return {room.begin(), room.begin() + static_cast<ptrdiff_t>(bytes)};
  }
  std::vector<uint8_t> Memory(size_t offset, size_t bytes) {
    const auto at = host.memory.begin() + static_cast<ptrdiff_t>(offset);
    return {at, at + static_cast<ptrdiff_t>(bytes)};
  }
  DropReason Arrive(std::span<const uint8_t> frame) {
    const std::array takers = {qp};
    return host.endpoint.OnRawFrame(now, frame, takers);
  }
  Completion TheCompletion() {
    const auto completions = host.Poll();
    EXPECT_EQ(completions.size(), 1u);
    return completions.empty() ? Completion{} : completions.front();
  }

  TestHost host;
  QpInitAttributes init;
  QueuePair* qp = nullptr;
  const Time now{1'000};
};

struct RawPacketTest : testing::Test, RawHost {
  RawPacketTest() : RawHost(1'500) {}
};

TEST_F(RawPacketTest, FrameLeavesAsItIs) {
  ASSERT_EQ(Send({Sge(0, 10), Sge(100, 70)}), Status::kOk);
  std::vector<uint8_t> expected = Memory(0, 10);
  const std::vector<uint8_t> rest = Memory(100, 70);
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(Transmitted(), expected);
  const Completion sent = TheCompletion();
  EXPECT_EQ(sent.status, CompletionStatus::kSuccess);
  EXPECT_EQ(sent.opcode, CompletionOpcode::kSend);
  EXPECT_EQ(sent.wr_id, 7u);
  EXPECT_EQ(Transmitted(), std::vector<uint8_t>());
}

TEST_F(RawPacketTest, InlineFrame) {
  ASSERT_EQ(Send({Sge(0, 60)}, /*is_inline=*/true), Status::kOk);
  const std::vector<uint8_t> expected = Memory(0, 60);
  host.memory[0] ^= 0xff;  // the frame was copied when it was posted
  EXPECT_EQ(Transmitted(), expected);
  EXPECT_EQ(TheCompletion().status, CompletionStatus::kSuccess);
}

TEST_F(RawPacketTest, LongestFrameIsOfTheMtuWithATag) {
  constexpr uint32_t kLongest = 1'500 + kHeaderBytes + 4;
  ASSERT_EQ(Send({Sge(0, kLongest)}), Status::kOk);
  EXPECT_EQ(Transmitted(), Memory(0, kLongest));
}

// The limit of kMaxFrameBytes, a port's room, holds for any MTU.
TEST(RawPacketRoomTest, LongestFrameIsNoLongerThanTheRoom) {
  RawHost raw(9'000);
  EXPECT_EQ(raw.Send({raw.Sge(0, kMaxFrameBytes)}), Status::kOk);
  EXPECT_EQ(raw.Transmitted().size(), kMaxFrameBytes);
  EXPECT_EQ(raw.Send({raw.Sge(0, kMaxFrameBytes + 1)}), Status::kOk);
  EXPECT_EQ(raw.Transmitted().size(), 0u);
  EXPECT_EQ(raw.qp->state(), QpState::kSendQueueError);
}

TEST_F(RawPacketTest, FrameThatIsTooLongStopsTheSendQueue) {
  const uint32_t longest = host.endpoint.config().max_frame_bytes();
  ASSERT_EQ(Send({Sge(0, longest + 1)}), Status::kOk);
  EXPECT_EQ(Transmitted(), std::vector<uint8_t>());
  EXPECT_EQ(TheCompletion().status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(qp->state(), QpState::kSendQueueError);
  QpAttributes a;
  a.state = QpState::kReadyToSend;
  EXPECT_EQ(qp->Modify(a, M::kState), Status::kOk);
  ASSERT_EQ(Send({Sge(0, 60)}), Status::kOk);
  EXPECT_EQ(Transmitted(), Memory(0, 60));
}

TEST_F(RawPacketTest, InvalidFrameIsRefusedWhenPosted) {
  EXPECT_EQ(Send({Sge(0, kHeaderBytes - 1)}), Status::kInvalidArgument);
  EXPECT_EQ(Send({}), Status::kInvalidArgument);
  EXPECT_EQ(Send({Sge(0, kHeaderBytes)}), Status::kOk);
}

TEST_F(RawPacketTest, OperationOfAnotherServiceCompletesInError) {
  for (const SendOpcode opcode :
       {SendOpcode::kSendWithImmediate, SendOpcode::kRdmaWrite, SendOpcode::kLocalInvalidate}) {
    SendWorkRequest request;
    request.opcode = opcode;
    const ScatterGatherEntry sge = Sge(0, 60);
    request.sges = {&sge, 1};
    ASSERT_EQ(qp->PostSend(request), Status::kOk);
    EXPECT_EQ(Transmitted(), std::vector<uint8_t>());
    EXPECT_EQ(TheCompletion().status, CompletionStatus::kLocalQpOperationError);
    QpAttributes a;
    a.state = QpState::kReadyToSend;
    ASSERT_EQ(qp->Modify(a, M::kState), Status::kOk);
  }
}

TEST_F(RawPacketTest, WrongKeyStopsTheSendQueue) {
  ASSERT_EQ(Send({{host.address(0), 60, LKey{host.key.value + 1}}}), Status::kOk);
  EXPECT_EQ(Transmitted(), std::vector<uint8_t>());
  EXPECT_EQ(TheCompletion().status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(qp->state(), QpState::kSendQueueError);
}

TEST_F(RawPacketTest, FramesAreHeldToTheRate) {
  QpAttributes a;
  a.rate_limit = {.kbps = 8, .burst_bytes = 60};
  ASSERT_EQ(qp->Modify(a, M::kRateLimit), Status::kOk);
  ASSERT_EQ(Send({Sge(0, 60)}), Status::kOk);
  ASSERT_EQ(Send({Sge(0, 60)}), Status::kOk);
  EXPECT_FALSE(Transmitted().empty());
  EXPECT_TRUE(Transmitted().empty());
  EXPECT_NE(host.endpoint.NextDeadline(), kNever);
}

TEST_F(RawPacketTest, FrameArrivesInThePiecesOfTheReceiveRequest) {
  const std::vector<uint8_t> frame = Memory(1'000, 100);
  Receive({Sge(0, 14), Sge(200, 100)});
  EXPECT_EQ(Arrive(frame), DropReason::kNone);
  const Completion received = TheCompletion();
  EXPECT_EQ(received.status, CompletionStatus::kSuccess);
  EXPECT_EQ(received.opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(received.wr_id, 9u);
  EXPECT_EQ(received.byte_length, 100u);
  EXPECT_EQ(received.flags, 0);
  EXPECT_EQ(received.qpn, qp->qpn());
  EXPECT_EQ(received.source_qpn, Qpn{});
  std::vector<uint8_t> there = Memory(0, 14);
  const std::vector<uint8_t> rest = Memory(200, 86);
  there.insert(there.end(), rest.begin(), rest.end());
  EXPECT_EQ(there, frame);
}

TEST_F(RawPacketTest, FrameThatIsTooLongEndsTheQueuePair) {
  Receive({Sge(0, 99)});
  Receive({Sge(0, 200)});
  const std::vector<uint8_t> before = Memory(0, 100);
  EXPECT_EQ(Arrive(Memory(1'000, 100)), DropReason::kMessageTooLong);
  const auto completions = host.Poll();
  ASSERT_EQ(completions.size(), 2u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(completions[1].status, CompletionStatus::kFlushed);
  EXPECT_EQ(qp->state(), QpState::kError);
  EXPECT_EQ(Memory(0, 100), before);
}

TEST_F(RawPacketTest, FramesWithoutAReadyReceiverAreDropped) {
  const std::vector<uint8_t> frame = Memory(0, 100);
  EXPECT_EQ(Arrive(frame), DropReason::kReceiverNotReady);
  EXPECT_EQ(qp->state(), QpState::kReadyToSend);
  QpAttributes a;
  a.state = QpState::kReset;
  ASSERT_EQ(qp->Modify(a, M::kState), Status::kOk);
  EXPECT_EQ(Arrive(frame), DropReason::kQpNotReady);
  const Counters& counters = host.endpoint.counters();
  EXPECT_EQ(counters.drops(DropReason::kReceiverNotReady), 1u);
  EXPECT_EQ(counters.drops(DropReason::kQpNotReady), 1u);
  EXPECT_EQ(counters.received_packets, 2u);
}

TEST_F(RawPacketTest, FramesThatNoFlowTakesAreDropped) {
  EXPECT_EQ(host.endpoint.OnRawFrame(now, Memory(0, 100), {}), DropReason::kNoFlow);
  EXPECT_EQ(host.endpoint.counters().drops(DropReason::kNoFlow), 1u);
  EXPECT_EQ(host.endpoint.counters().received_packets, 1u);
}

TEST_F(RawPacketTest, EachTakerGetsACopyAndOneIsEnough) {
  QueuePair* const other = Create();
  Receive({Sge(0, 100)});
  const std::array both = {other, qp};
  EXPECT_EQ(host.endpoint.OnRawFrame(now, Memory(1'000, 100), both), DropReason::kNone);
  EXPECT_EQ(TheCompletion().qpn, qp->qpn());
  const ScatterGatherEntry sge = Sge(200, 100);
  ASSERT_EQ(other->PostReceive({.wr_id = 1, .sges = {&sge, 1}}), Status::kOk);
  Receive({Sge(0, 100)});
  EXPECT_EQ(host.endpoint.OnRawFrame(now, Memory(1'000, 100), both), DropReason::kNone);
  EXPECT_EQ(host.Poll().size(), 2u);
  EXPECT_EQ(Memory(0, 100), Memory(200, 100));
}

TEST_F(RawPacketTest, CopyForAWatcherIsNotCountedAsReceived) {
  const std::array watchers = {qp};
  host.endpoint.CopyFrame(now, Memory(0, 100), watchers);
  const Counters& counters = host.endpoint.counters();
  EXPECT_EQ(counters.received_packets, 0u);
  EXPECT_EQ(counters.drops(DropReason::kReceiverNotReady), 1u);
  Receive({Sge(0, 100)});
  host.endpoint.CopyFrame(now, Memory(0, 100), watchers);
  EXPECT_EQ(TheCompletion().byte_length, 100u);
}

TEST_F(RawPacketTest, ReceivesFromASharedQueue) {
  const auto srq = host.endpoint.CreateSharedReceiveQueue(
      {.pd = kTestPd, .max_work_requests = 4, .max_sges = 1});
  init.srq = srq.get();
  qp = Create();
  const ScatterGatherEntry sge = Sge(0, 100);
  ASSERT_EQ(srq->Post({.wr_id = 5, .sges = {&sge, 1}}), Status::kOk);
  EXPECT_EQ(Arrive(Memory(1'000, 100)), DropReason::kNone);
  EXPECT_EQ(TheCompletion().wr_id, 5u);
  host.endpoint.DestroyQueuePair(qp);
}

// A peer may send a RoCEv2 packet to any number, also to that of a raw packet queue pair.
TEST(RawPacketNumberTest, TakesNoPacketOfRoce) {
  ConnectedPair pair;
  QpInitAttributes init = pair.server.qp->init_attributes();
  init.type = QpType::kRawPacket;
  QueuePair* raw = nullptr;
  ASSERT_EQ(pair.server.endpoint.CreateQueuePair(init, &raw), Status::kOk);
  ASSERT_EQ(pair.client.qp->PostSend(pair.Request(SendOpcode::kSend, 10)), Status::kOk);
  const size_t bytes = pair.client.endpoint.PollTransmit(pair.now, Route::kWire,
                                                         FrameRoom(pair.frame, IcrcUse::kWaived));
  ASSERT_NE(bytes, 0u);
  // The destination QPN is in bytes 4 to 7 of the BTH, the first of them zero. The BTH starts after
  // 14 + 20 + 8 bytes.
  Store32(raw->qpn().value, pair.frame.data() + 42 + 4);
  EXPECT_EQ(pair.server.endpoint.OnFrame(pair.now, std::span(pair.frame).first(bytes), Route::kWire,
                                         IcrcUse::kWaived),
            DropReason::kWrongService);
}

}  // namespace
}  // namespace uroce::transport
