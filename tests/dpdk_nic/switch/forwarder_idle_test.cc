// The switch beside moving frames: neighbours, the carrier, and sleep.
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "dpdk_nic/link_layer/arp.h"
#include "dpdk_nic/switch/forwarder.h"
#include "tests/dpdk_nic/switch/forwarder_rig.h"

namespace uroce::nic {
namespace {

using Kind = SleepPlan::Kind;
using transport::Gid;
using transport::kNever;
using transport::Microseconds;
using transport::Milliseconds;

// A frame that the switch gives to the link layer.
FrameBytes ArpFrame() {
  FrameBytes frame(kArpFrameBytes);
  EmitArp({.sender_mac = kFarMac, .sender_ip = {192, 0, 2, 2}, .target_ip = {192, 0, 2, 1}},
          kBroadcastMac, frame);
  return frame;
}

TEST(ForwarderNeighborTest, LinkLayerGetsNonRoceFramesAndSendsItsOwn) {
  ForwarderRig rig;
  rig.neighborhood->outgoing = {ArpFrame(), ArpFrame()};
  rig.cable->Deliver(ArpFrame());
  rig.Run();
  EXPECT_EQ(rig.neighborhood->received, std::vector<FrameBytes>{ArpFrame()});
  EXPECT_EQ(rig.cable->sent_count(), 2u);
  EXPECT_EQ(rig.counters().dropped_malformed, 0u);
  EXPECT_EQ(rig.counters().frames_to_wire, 0u);
}

TEST(ForwarderNeighborTest, LinkLayersFramesWaitForAFullWire) {
  ForwarderRig rig;
  rig.neighborhood->outgoing = {ArpFrame(), ArpFrame()};
  rig.cable->room = 1;
  rig.Run();
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kNap);
  rig.cable->room = 1;
  rig.Run();
  EXPECT_EQ(rig.cable->sent_count(), 2u);
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kSleep);
}

TEST(ForwarderNeighborTest, DeadlineOfTheLinkLayerIsKept) {
  ForwarderRig rig;
  rig.neighborhood->deadline = rig.now + Milliseconds(10);
  rig.RunOnce();
  EXPECT_EQ(rig.neighborhood->deadlines, 0);
  EXPECT_EQ(rig.forwarder.PlanSleep().until, rig.neighborhood->deadline);
  rig.neighborhood->changes = {{kFarIpv4, kFarMac}};
  rig.RunOnce(Milliseconds(10));
  EXPECT_EQ(rig.neighborhood->deadlines, 1);
  EXPECT_EQ(rig.neighbors.size(), 1u);  // noticed without a frame
}

TEST(ForwarderNeighborTest, QuestionIsAnsweredWhenTheLinkLayerLearnsTheNeighbor) {
  ForwarderRig rig;
  rig.forwarder.Resolve(rig.now, kFarIpv4);
  rig.Run();
  EXPECT_TRUE(rig.neighbors.empty());
  rig.neighborhood->changes = {{kFarIpv4, kFarMac}};
  rig.cable->Deliver(ArpFrame());
  rig.Run();
  ASSERT_EQ(rig.neighbors.size(), 1u);
  EXPECT_EQ(rig.neighbors[0].gid, kFarIpv4);
  EXPECT_EQ(rig.neighbors[0].mac, kFarMac);
  EXPECT_EQ(rig.neighbors[0].is_known, 1);
  rig.RunFor(NeighborQuestions::kTimeout + Milliseconds(1));
  EXPECT_EQ(rig.neighbors.size(), 1u);
}

TEST(ForwarderNeighborTest, UnreachableIsAnAnswer) {
  ForwarderRig rig;
  rig.forwarder.Resolve(rig.now, kFarIpv4);
  rig.RunFor(NeighborQuestions::kTimeout + Milliseconds(2));
  ASSERT_EQ(rig.neighbors.size(), 1u);
  EXPECT_EQ(rig.neighbors[0].gid, kFarIpv4);
  EXPECT_EQ(rig.neighbors[0].is_known, 0);
}

TEST(ForwarderNeighborTest, QuestionForWhichThereIsNoRoomOrNoWireIsAnsweredAtOnce) {
  ForwarderRig rig;
  for (size_t i = 0; i < NeighborQuestions::kMaxQuestions; ++i) {
    const auto low = static_cast<uint8_t>(i);
    rig.forwarder.Resolve(rig.now, Gid::FromIpv4({10, 0, static_cast<uint8_t>(i >> 8), low}));
  }
  EXPECT_TRUE(rig.neighbors.empty());
  rig.forwarder.Resolve(rig.now, kFarIpv4);
  ASSERT_EQ(rig.neighbors.size(), 1u);
  EXPECT_EQ(rig.neighbors[0].is_known, 0);

  ForwarderRig without_wire({.has_wire = false});
  without_wire.forwarder.Resolve(without_wire.now, kFarIpv4);
  EXPECT_EQ(without_wire.neighbors.size(), 1u);
}

TEST(ForwarderWireStateTest, FirstWireStateAndEveryChangeAreReported) {
  ForwarderRig rig;
  rig.RunFor(Milliseconds(10));
  EXPECT_EQ(rig.wire_states, std::vector<bool>{true});
  rig.cable->is_up = false;
  rig.RunFor(Milliseconds(10));
  rig.cable->is_up = true;
  rig.RunFor(Milliseconds(10));
  EXPECT_EQ(rig.wire_states, (std::vector<bool>{true, false, true}));
  rig.cable->has_failed = true;
  rig.RunFor(Milliseconds(10));
  EXPECT_EQ(rig.wire_states, (std::vector<bool>{true, false, true, false}));
}

// Frames arrive only with a carrier, so nothing else would wake the switch.
TEST(ForwarderNoticeTest, WireNoticeOfAHostIsPassedOnOnce) {
  ForwarderRig rig;
  rig.cable->SetNotice({"no route to host", kFarIpv4});
  rig.forwarder.PreparePath(kFarIpv4);
  ASSERT_EQ(rig.notices.size(), 1u);
  EXPECT_EQ(rig.notices[0].sentence, "no route to host");
  EXPECT_EQ(rig.notices[0].about, kFarIpv4);
  rig.forwarder.PreparePath(kFarIpv4);
  EXPECT_EQ(rig.notices.size(), 1u);
}

TEST(ForwarderWireStateTest, CarrierIsLookedAtWhileNothingElseHappens) {
  ForwarderRig rig;
  rig.Run();
  const SleepPlan plan = rig.forwarder.PlanSleep();
  ASSERT_EQ(plan.kind, Kind::kSleep);
  EXPECT_LE(plan.until, rig.now + Milliseconds(1'001));
  rig.cable->is_up = false;
  rig.now = plan.until;
  rig.forwarder.EndSleep();
  rig.forwarder.RunOnce(rig.now);
  EXPECT_EQ(rig.wire_states, (std::vector<bool>{true, false}));
}

TEST(ForwarderSleepTest, WithoutAWireSwitchSleepsUntilAProcessSends) {
  ForwarderRig rig({.has_wire = false});
  for (const auto block : {kAlice, kBob}) {
    rig.Process(block);
    ASSERT_EQ(rig.forwarder.table().JoinGroup(block, kGroup), 0);
  }
  rig.Run();
  const SleepPlan plan = rig.forwarder.PlanSleep();
  EXPECT_EQ(plan.kind, Kind::kSleep);
  EXPECT_EQ(plan.until, kNever);
  ASSERT_TRUE(rig.Process(kAlice).Send(ToGroup(QpOf(kAlice, 1)).Build()));
  rig.forwarder.EndSleep();  // Alice's byte on the socket has woken the switch
  EXPECT_TRUE(rig.RunOnce());
  EXPECT_EQ(rig.Process(kBob).Receive().size(), 1u);
}

TEST(ForwarderSleepTest, PendingFramePreventsSleep) {
  ForwarderRig rig;
  rig.Process(kAlice);
  rig.Run();
  ASSERT_TRUE(rig.Process(kAlice).Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kNone);
  rig.Run();
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kSleep);
  rig.forwarder.EndSleep();
  rig.cable->Deliver(RoceSpec{}.Build());
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kNone);
}

TEST(ForwarderSleepTest, WireWithoutInterruptsIsPolledAfterNaps) {
  ForwarderRig rig({.wire_can_wake = false});
  rig.Process(kAlice);
  rig.Run();
  const SleepPlan plan = rig.forwarder.PlanSleep();
  EXPECT_EQ(plan.kind, Kind::kNap);
  EXPECT_EQ(plan.fds, (std::array{rig.forwarder.uplinks_fd(), -1}));
}

// The next pass does not look at the sockets, so it sees a frame only if it polls the uplink.
TEST(ForwarderSleepTest, UplinkIsPolledOnlyWhileItIsUsed) {
  ForwarderRig rig;
  RingProcess& alice = rig.Process(kAlice);
  const FrameBytes frame = DatagramToWire(QpOf(kAlice, 1)).Build();
  rig.Run();
  ASSERT_TRUE(alice.Send(frame));
  EXPECT_TRUE(rig.RunOnce(Microseconds(1)));

  rig.RunFor(Uplinks::kIdleTime + Milliseconds(3));
  ASSERT_TRUE(alice.Send(frame));
  EXPECT_FALSE(rig.RunOnce(Microseconds(1)));
  EXPECT_TRUE(rig.RunOnce(Microseconds(50)));  // the switch saw the byte on the socket
  for (int i = 0; i < 10; ++i) {
    rig.RunOnce(Uplinks::kIdleTime - Microseconds(100));
    ASSERT_TRUE(alice.Send(frame));
    EXPECT_TRUE(rig.RunOnce(Microseconds(1)));
  }
}

TEST(ForwarderSleepTest, FrameForAnIdleUplinkResumesPolling) {
  ForwarderRig rig;
  RingProcess& alice = rig.Process(kAlice);
  rig.RunFor(Uplinks::kIdleTime + Milliseconds(3));
  EXPECT_TRUE(alice.switch_sleeps());
  rig.cable->Deliver(RoceSpec{}.Build());
  EXPECT_TRUE(rig.RunOnce(Microseconds(1)));
  EXPECT_FALSE(alice.switch_sleeps());
  ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
  EXPECT_TRUE(rig.RunOnce(Microseconds(1)));
  EXPECT_EQ(rig.cable->sent_count(), 1u);
}

// Each frame comes alone, as when the requester repeats the first one for want of an answer.
TEST(ForwarderSleepTest, ProcessThatLostItsWakeUpIsWokenAgain) {
  ForwarderRig rig;
  RingProcess& alice = rig.Process(kAlice);
  rig.Run();
  const auto frame = RoceSpec{.destination_qpn = QpOf(kAlice, 1)}.Build();
  rig.cable->Deliver(frame);
  rig.RunFor(Uplinks::kIdleTime + Milliseconds(3));
  EXPECT_FALSE(alice.WasWoken());
  rig.cable->Deliver(frame);
  rig.RunFor(Uplinks::kIdleTime + Milliseconds(3));
  EXPECT_TRUE(alice.WasWoken());
  EXPECT_EQ(alice.Receive().size(), 2u);
  rig.cable->Deliver(frame);
  rig.RunFor(Uplinks::kIdleTime + Milliseconds(3));
  EXPECT_FALSE(alice.WasWoken());
}

TEST(ForwarderSleepTest, EndOfASleepingProcessIsNoticed) {
  ForwarderRig rig({.has_wire = false});
  rig.Process(kAlice);
  rig.RunFor(Milliseconds(5));
  rig.Process(kAlice).Die();
  rig.RunFor(Milliseconds(5));
  ASSERT_EQ(rig.forwarder.table().JoinGroup(kAlice, kGroup), 0);
  ASSERT_TRUE(rig.Process(kBob).Send(ToGroup(QpOf(kBob, 1)).Build()));
  rig.Run();
  EXPECT_EQ(rig.counters().dropped_unknown_destination, 1u);
}

// The process keeps a copy of the switch's end of the socket, so it stays open, and writes to it.
TEST(ForwarderSleepTest, ClosedUplinkCausesNoWakeup) {
  ForwarderRig rig({.has_wire = false});
  RingProcess alice(/*keeps_socket=*/true);
  ASSERT_EQ(rig.forwarder.ConnectUplink(rig.now, kAlice, alice.TakeSwitchEnd()), 0);
  rig.Run();
  rig.forwarder.Remove(rig.now, kAlice);
  ASSERT_EQ(write(alice.link().socket(), "", 1), 1);
  EXPECT_FALSE(rig.has_socket_news());
  EXPECT_EQ(rig.forwarder.PlanSleep().kind, Kind::kSleep);
}

}  // namespace
}  // namespace uroce::nic
