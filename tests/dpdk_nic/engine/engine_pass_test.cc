// The duties of an engine's pass beside moving the endpoint's frames, and the events that wake the
// progress thread for a pass.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "tests/dpdk_nic/engine/engine_port_fixture.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::EventType;
using transport::MacAddress;

class EnginePassTest : public EnginePortTest {
 protected:
  static constexpr uint8_t kTimeout = 8;  // 1 ms

  // Makes passes until `condition`, evaluated under the engine's lock, holds.
  bool PollUntil(const std::function<bool()>& condition) {
    return WaitUntil([&] {
      engine_->TryRunOnce();
      return engine_->WithEndpoint([&](Endpoint&) { return condition(); });
    });
  }
  // Builds frames as the peers of this process do.
  transport::FrameBuilder PeersFrames(transport::Qpn to) const {
    transport::FrameBuilder frames(
        kPeerMac, kPeerGid,
        {.destination_gid = Gid::LinkLocal(port_->mac()), .destination_mac = port_->mac()}, 0xc000);
    frames.SetConnection({.destination_qpn = to});
    return frames;
  }
  uint64_t ack_timeouts() {
    return engine_->WithEndpoint(
        [](Endpoint& endpoint) { return endpoint.counters().ack_timeouts; });
  }
  // Posts a request, and lets the time for its answer run out while `frames` wait in the port.
  void LetTimerRunOut(transport::QueuePair& qp, int frames) {
    const Engine::Verb verb(*engine_);
    ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
    port_->frames_to_receive = frames;
    usleep(5'000);
  }
  // The progress thread's first sleep is short. The second has no timeout, as the progress thread
  // has no work yet.
  bool WaitUntilProgressThreadSleeps() {
    return WaitUntil([&] { return port_->sleeps >= 2 && port_->is_asleep; });
  }
};

TEST_F(EnginePassTest, ChangeOfThePortRaisesAnEvent) {
  for (const bool is_active : {false, true}) {
    engine_->WithEndpoint([&](Endpoint&) { port_->is_active = is_active; });
    const EventType expected = is_active ? EventType::kPortActive : EventType::kPortError;
    ASSERT_TRUE(PollUntil([&] { return !events_.empty() && events_.back() == expected; }));
  }
  EXPECT_EQ(events_, (std::vector{EventType::kPortError, EventType::kPortActive}));
}

TEST_F(EnginePassTest, FramesThatComeWithoutEndAreTakenInBursts) {
  engine_->WithEndpoint([&](Endpoint&) { port_->frames_to_receive = 200; });
  ASSERT_TRUE(PollUntil([&] { return port_->frames_to_receive == 0; }));
  EXPECT_EQ(port_->longest_burst, 64);
}

// The peer waits for the ACK while the rest of its burst is on the way.
TEST_F(EnginePassTest, RequestedAckIsSentInTheMiddleOfABurst) {
  constexpr uint32_t kBlock = 7;
  const transport::QueuePair& qp = Connect(kBlock);
  const transport::FrameBuilder peer = PeersFrames(qp.qpn());
  std::array<uint8_t, transport::kMaxFrameBytes> frame;
  uint32_t psn = 0;
  std::vector<uint32_t> asking_psns;
  const auto received_before_acks = [&](int frames, std::vector<uint32_t> asking) {
    usleep(1'000);  // frames close behind others may be answered later (FramePolicy)
    engine_->WithEndpoint([&](Endpoint&) {
      port_->received_before.clear();
      asking_psns = std::move(asking);
      for (uint32_t& asking_psn : asking_psns) asking_psn += psn;
      port_->frames_to_receive = frames;
    });
    EXPECT_TRUE(PollUntil([&] { return !port_->received_before.empty(); }));
    return engine_->WithEndpoint([&](Endpoint&) { return port_->received_before; });
  };
  engine_->WithEndpoint([&](Endpoint&) {
    port_->next_frame = [&] {
      const size_t bytes = peer.Emit({.opcode = transport::kRcWriteOnly,
                                      .psn = transport::Psn(psn),
                                      .ack_request = std::ranges::count(asking_psns, psn) != 0},
                                     transport::Reth(), {nullptr, 0}, frame);
      ++psn;
      return PacketPort::ReceivedFrame{.bytes = std::span(frame).first(bytes),
                                       .from = transport::RouteToBlock(kBlock)};
    };
  });
  EXPECT_EQ(received_before_acks(40, {19}), (std::vector{20, 40}));
  EXPECT_EQ(received_before_acks(10, {3}), (std::vector{10})) << "not worth two frames";
  EXPECT_EQ(received_before_acks(40, {19, 22}), (std::vector{20, 36, 40})) << "nor so soon";
}

// The answer lies behind more frames than a burst has.
TEST_F(EnginePassTest, AnswerThatLiesInThePortIsReadBeforeItsTimeIsOver) {
  constexpr uint32_t kBlock = 7;
  transport::QueuePair& qp = Connect(kBlock, kTimeout);
  std::array<uint8_t, transport::kMaxFrameBytes> frame;
  engine_->WithEndpoint([&](Endpoint&) {
    port_->next_frame = [&] {
      const bool is_answer = port_->frames_to_receive == 1;
      const size_t bytes =
          PeersFrames(is_answer ? qp.qpn() : transport::Qpn())
              .Emit({.opcode = transport::kRcAcknowledge, .psn = transport::Psn()},
                    transport::Aeth{.syndrome = {}, .msn = 1}, {nullptr, 0}, frame);
      return PacketPort::ReceivedFrame{.bytes = std::span(frame).first(bytes),
                                       .from = transport::RouteToBlock(kBlock)};
    };
  });
  LetTimerRunOut(qp, 400);
  ASSERT_TRUE(PollUntil([&] { return port_->frames_to_receive == 0; }));
  usleep(5'000);
  engine_->TryRunOnce();
  EXPECT_EQ(ack_timeouts(), 0u);
  EXPECT_EQ(port_->frames_sent, 1u);
}

TEST_F(EnginePassTest, TimeRunsOutThoughFramesComeWithoutEnd) {
  constexpr int kWithoutEnd = 1'000'000;
  LetTimerRunOut(Connect(7, kTimeout), kWithoutEnd);
  ASSERT_TRUE(PollUntil([&] { return port_->frames_to_receive < kWithoutEnd; }));
  EXPECT_NE(ack_timeouts(), 0u);
  EXPECT_GT(port_->frames_to_receive, 0);
}

// With flows present, a frame that no flow takes counts as kNoFlow, unless the link layer takes it.
TEST_F(EnginePassTest, FrameWithoutReceiverCountsAsNoFlowOnlyIfFlowsExist) {
  transport::QueuePair& qp = CreateQueuePair();
  const auto receive = [&](bool is_link_layers) {
    engine_->WithEndpoint([&](Endpoint&) {
      link_layer_->takes_frames = is_link_layers;
      port_->frames_to_receive = 1;
    });
    ASSERT_TRUE(PollUntil([&] { return port_->frames_to_receive == 0; }));
  };
  const auto drops = [&](DropReason reason) {
    return engine_->WithEndpoint(
        [&](Endpoint& endpoint) { return endpoint.counters().drops(reason); });
  };
  receive(false);
  EXPECT_EQ(drops(DropReason::kNotIp), 1u);
  FlowRule rule;
  rule.value.source_mac = rule.mask.source_mac = {2, 0, 0, 0, 0, 1};
  const auto id = engine_->frame_watch(Engine::Verb(*engine_)).AddFlow(rule, qp);
  receive(false);
  receive(true);
  EXPECT_EQ(drops(DropReason::kNoFlow), 1u);
  EXPECT_EQ(drops(DropReason::kNotIp), 1u);
  engine_->frame_watch(Engine::Verb(*engine_)).RemoveFlow(*id, rule);
}

TEST_F(EnginePassTest, FramesFollowANeighborThatChanged) {
  transport::QueuePair& qp = Connect(7);
  constexpr MacAddress kNewMac = {2, 9, 9, 9, 9, 9};
  engine_->WithEndpoint([&](Endpoint&) { link_layer_->change = {{kPeerGid, kNewMac}}; });
  ASSERT_TRUE(PollUntil([&] { return !link_layer_->change; }));
  const Engine::Verb verb(*engine_);
  ASSERT_EQ(PostWrite(verb, qp), Status::kOk);
  ASSERT_EQ(port_->frames_sent, 1u);
  const auto destination = port_->last_frame().first(kNewMac.size());
  EXPECT_TRUE(std::ranges::equal(destination, kNewMac));
}

TEST_F(EnginePassTest, DeadlineOfTheLinkLayerIsMet) {
  engine_->WithEndpoint([&](Endpoint&) { link_layer_->deadline = Now(); });
  EXPECT_TRUE(PollUntil([&] { return link_layer_->deadlines_met == 1; }));
}

// The port's MAC is known and need not be derived from its address.
TEST_F(EnginePassTest, OwnAddressIsNotAskedFor) {
  EXPECT_EQ(engine_->ResolveNeighbor(kOwnIp, {}), port_->mac());
}

TEST_F(EnginePassTest, ProgressThreadThatSleepsIsWokenForAFrameThatFoundNoRoom) {
  transport::QueuePair& qp = CreateQueuePair();
  ASSERT_TRUE(WaitUntilProgressThreadSleeps());
  port_->has_room = false;
  Post(qp, 7, 1);
  ASSERT_TRUE(WaitUntil([&] { return !port_->is_asleep; }));
  port_->has_room = true;
  EXPECT_TRUE(WaitUntil([&] { return port_->frames_sent == 1; }));
}

TEST_F(EnginePassTest, SleepingProgressThreadIsWokenForFramesThePortKeeps) {
  ASSERT_TRUE(WaitUntilProgressThreadSleeps());
  const int before = port_->receive_bursts_of_progress;
  engine_->WithEndpoint([&](Endpoint&) { port_->keeps = true; });
  EXPECT_TRUE(WaitUntil([&] { return port_->receive_bursts_of_progress != before; }));
}

// Nothing arrives that could wake the progress thread.
TEST_F(EnginePassTest, QuestionIsAskedAgainThoughTheProgressThreadWasAsleep) {
  ASSERT_TRUE(WaitUntilProgressThreadSleeps());
  engine_->WithEndpoint([&](Endpoint&) {
    constexpr int kByTheAsker = 1;
    port_->paths_are_ready_when_served = port_->served + kByTheAsker + 1;
  });
  EXPECT_EQ(engine_->PreparePath({}, transport::Milliseconds(60'000)),
            PacketPort::PathState::kReady);
}

}  // namespace
}  // namespace uroce::nic
