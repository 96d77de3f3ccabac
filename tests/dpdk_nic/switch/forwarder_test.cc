// The pass of the switch, between a fake wire and real rings, in one thread and virtual time.
#include "dpdk_nic/switch/forwarder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "tests/dpdk_nic/switch/forwarder_rig.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::Gid;
using transport::Microseconds;
using transport::Milliseconds;
using transport::Qpn;
using Frames = std::vector<FrameBytes>;

constexpr Block kCarol = 512;
constexpr uint64_t kService = 0x0106'1d2f;

class ForwarderTest : public testing::Test {
 protected:
  void Declare(Block block, uint32_t remote) {
    ASSERT_EQ(rig_.forwarder.table().Declare(block, {QpOf(block, 5), {remote}, kFarIpv4}), 0);
  }
  void Join(Block block, const Gid& group = kGroup) {
    ASSERT_EQ(rig_.forwarder.table().JoinGroup(block, group), 0);
  }
  // A frame whose payload repeats `number`.
  static FrameBytes Numbered(RoceSpec spec, uint8_t number) {
    spec.payload.assign(64, number);
    return spec.Build();
  }
  // Fills the rings of Alice and of Bob with copies of one frame to a group that Bob is in. Returns
  // the frame.
  FrameBytes SendMoreThanBobTakes() {
    rig_.cable->room = 10'000;
    rig_.Process(kBob);
    Join(kBob);
    const FrameBytes frame = ToGroup(QpOf(kAlice, 1)).Build();
    for (size_t sent = 0; sent < 2 * kSlots; rig_.RunOnce()) {
      if (rig_.Process(kAlice).Send(frame)) ++sent;
    }
    return frame;
  }

  ForwarderRig rig_;
};

TEST_F(ForwarderTest, DeclaredConnectionReachesTheWireByteForByte) {
  Declare(kAlice, 42);
  Frames expected;
  for (const size_t payload_bytes : {4u, 60u, 64u, 68u, 1'024u, 4'096u}) {
    RoceSpec spec = ToWire(kRcSendOnly);
    for (size_t i = 0; i < payload_bytes; ++i) spec.payload.push_back(static_cast<uint8_t>(i));
    expected.push_back(spec.Build());
    ASSERT_TRUE(rig_.Process(kAlice).Send(expected.back()));
  }
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent(), expected);
  EXPECT_EQ(rig_.counters().frames_to_wire, expected.size());
  EXPECT_GT(rig_.cable->flushes, 0);
}

TEST_F(ForwarderTest, FrameFromTheWireReachesTheProcessOfItsQueuePairOnly) {
  rig_.Process(kAlice);
  rig_.Process(kBob);
  RoceSpec long_one;
  long_one.payload.assign(4'096, 0x5a);
  const Frames expected = {RoceSpec{}.Build(), long_one.Build()};
  for (const FrameBytes& frame : expected) rig_.cable->Deliver(frame);
  rig_.Run();
  EXPECT_EQ(rig_.Process(kAlice).Receive(), expected);
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
  EXPECT_EQ(rig_.counters().frames_from_wire, 2u);
}

TEST_F(ForwarderTest, RemovedAddressNeitherReceivesNorSends) {
  RingProcess& alice = rig_.Process(kAlice);
  const std::vector<Gid> gids = {Gid::LinkLocal(kOurMac), Gid{}};
  rig_.cable->SetGids(gids);
  rig_.RunFor(transport::Milliseconds(10));
  EXPECT_EQ(rig_.gid_tables, std::vector<std::vector<Gid>>(1, gids));
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_TRUE(alice.Receive().empty());
  Declare(kAlice, 42);
  ASSERT_TRUE(alice.Send(ToWire(kRcSendOnly).Build()));
  rig_.Run();
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
}

TEST_F(ForwarderTest, ForbiddenFramesAreDroppedAndCounted) {
  Declare(kAlice, 42);
  RoceSpec foreign_source = ToWire(kRcSendOnly);
  foreign_source.source = Gid::FromIpv4({192, 0, 2, 9});
  RoceSpec local = ToWire(kRcSendOnly);
  local.destination = kOurIpv4;
  RingProcess& alice = rig_.Process(kAlice);
  ASSERT_TRUE(alice.Send(ToWire(kRcSendOnly, {43}).Build()));
  ASSERT_TRUE(alice.Send(DatagramToWire(QpOf(kBob, 1)).Build()));
  ASSERT_TRUE(alice.Send(foreign_source.Build()));
  ASSERT_TRUE(alice.Send(local.Build()));
  ASSERT_TRUE(alice.Send(std::vector<uint8_t>(100, 0x55)));  // not even IP
  ASSERT_TRUE(alice.Send(std::vector<uint8_t>(1)));
  rig_.Run();
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().dropped_not_declared, 1u);
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 2u);
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
  EXPECT_EQ(rig_.counters().dropped_malformed, 2u);
  EXPECT_EQ(rig_.counters().frames_to_wire, 0u);
}

TEST_F(ForwarderTest, FrameFromTheWireWithoutReceiverIsDroppedAndCounted) {
  rig_.Process(kAlice);
  rig_.cable->Deliver(RoceSpec{.destination_qpn = QpOf(kBob, 5)}.Build());  // no such process
  FrameBytes malformed = RoceSpec{}.Build();
  malformed.resize(malformed.size() - 1);
  rig_.cable->Deliver(malformed);
  rig_.cable->Deliver(RoceSpec{.source = kOurIpv4}.Build());
  RoceSpec group = ToGroup({77});
  group.source = kFarIpv4;
  rig_.cable->Deliver(group.Build());
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 2u);
  EXPECT_EQ(rig_.counters().dropped_malformed, 1u);
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 1u);
  EXPECT_EQ(rig_.counters().frames_from_wire, 0u);
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty());
}

TEST_F(ForwarderTest, FrameLongerThanTheMtuIsDropped) {
  ForwarderRig rig({.mtu_bytes = 1'500});
  ASSERT_EQ(rig.forwarder.table().Declare(kAlice, {QpOf(kAlice, 5), {42}, kFarIpv4}), 0);
  RoceSpec spec = ToWire(kRcSendOnly);
  spec.payload.assign(1'500 - 20 - 8 - 12 - 4, 1);
  const FrameBytes longest = spec.Build();
  ASSERT_TRUE(rig.Process(kAlice).Send(longest));
  spec.payload.resize(spec.payload.size() + 4);
  ASSERT_TRUE(rig.Process(kAlice).Send(spec.Build()));
  rig.Run();
  EXPECT_EQ(rig.cable->TakeSent(), Frames{longest});
  EXPECT_EQ(rig.counters().dropped_malformed, 1u);
}

TEST_F(ForwarderTest, DatagramToAGroupReachesTheWireAndTheOtherMembers) {
  for (const Block member : {kAlice, kBob, kCarol}) rig_.Process(member);
  Join(kAlice);
  Join(kBob);
  Join(kCarol, kIpv6Group);
  const FrameBytes frame = ToGroup(QpOf(kAlice, 1)).Build();
  ASSERT_TRUE(rig_.Process(kAlice).Send(frame));
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent(), Frames{frame});
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{frame});
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty());  // Alice delivers to her own members herself
  EXPECT_TRUE(rig_.Process(kCarol).Receive().empty());
  EXPECT_EQ(rig_.counters().multicast_copies, 1u);
}

TEST_F(ForwarderTest, DatagramToAGroupFromTheWireReachesAllMembers) {
  for (const Block member : {kAlice, kBob, kCarol}) rig_.Process(member);
  Join(kAlice);
  Join(kBob);
  RoceSpec spec = ToGroup({77});
  spec.source = kFarIpv4;
  rig_.cable->Deliver(spec.Build());
  rig_.Run();
  EXPECT_EQ(rig_.Process(kAlice).Receive(), Frames{spec.Build()});
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{spec.Build()});
  EXPECT_TRUE(rig_.Process(kCarol).Receive().empty());
  EXPECT_EQ(rig_.counters().frames_from_wire, 1u);
  EXPECT_EQ(rig_.counters().multicast_copies, 2u);
}

TEST_F(ForwarderTest, WithoutAWireGroupsReachTheOtherMembers) {
  ForwarderRig rig({.has_wire = false});
  for (const Block member : {kAlice, kBob}) {
    rig.Process(member);
    ASSERT_EQ(rig.forwarder.table().JoinGroup(member, kGroup), 0);
  }
  RoceSpec spec = ToGroup(QpOf(kAlice, 1));
  spec.source = Gid::FromIpv4({10, 9, 8, 7});
  ASSERT_TRUE(rig.Process(kAlice).Send(spec.Build()));
  ASSERT_TRUE(rig.Process(kAlice).Send(DatagramToWire(QpOf(kAlice, 1)).Build()));
  rig.Run();
  EXPECT_EQ(rig.Process(kBob).Receive(), Frames{spec.Build()});
  EXPECT_EQ(rig.counters().frames_to_wire, 0u);
  EXPECT_EQ(rig.counters().dropped_unknown_destination, 1u);
}

TEST_F(ForwarderTest, ConnectionManagementFindsListenersAndConnections) {
  rig_.Process(kAlice);
  rig_.Process(kBob);
  ASSERT_EQ(rig_.forwarder.table().services().Add(kBob, ListenTo(kService)), 0);
  const auto request =
      Management({.attribute = Mad::kReq, .first_id = 9, .request_service = kService}, RoceSpec{});
  const auto reply = Management(
      {.attribute = Mad::kRep, .first_id = 9, .second_id = CommunicationId(kAlice, 7)}, RoceSpec{});
  rig_.cable->Deliver(request.Build());
  rig_.cable->Deliver(reply.Build());
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive(), Frames{request.Build()});
  EXPECT_EQ(rig_.Process(kAlice).Receive(), Frames{reply.Build()});
  const auto own = Management({.attribute = Mad::kRep, .first_id = CommunicationId(kBob, 1)},
                              ToWire(kUdSendOnly));
  ASSERT_TRUE(rig_.Process(kBob).Send(own.Build()));
  ASSERT_TRUE(rig_.Process(kAlice).Send(own.Build()));
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent(), Frames{own.Build()});
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 1u);
}

TEST_F(ForwarderTest, FullWireLeavesFramesInTheRingOfTheirProcess) {
  Declare(kAlice, 42);
  rig_.cable->room = 3;
  Frames sent;
  for (uint8_t i = 0;; ++i) {
    sent.push_back(Numbered(ToWire(kRcSendOnly), i));
    if (!rig_.Process(kAlice).Send(sent.back())) break;
  }
  sent.pop_back();
  EXPECT_EQ(sent.size(), kSlots);
  rig_.Run();
  EXPECT_EQ(rig_.cable->sent_count(), 3u);
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNap);
  rig_.cable->room = SIZE_MAX;
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent(), sent);
  EXPECT_EQ(rig_.counters().dropped_no_room, 0u);
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kSleep);
}

// Copies made while the frame waits for the wire would be repeated at each attempt.
TEST_F(ForwarderTest, GroupDatagramThatWaitsForTheWireIsCopiedOnce) {
  rig_.Process(kBob);
  Join(kBob);
  rig_.cable->room = 0;
  ASSERT_TRUE(rig_.Process(kAlice).Send(ToGroup(QpOf(kAlice, 1)).Build()));
  for (int i = 0; i < 5; ++i) rig_.RunOnce();
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
  rig_.cable->room = 1;
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), 1u);
}

TEST_F(ForwarderTest, SenderToAGroupWaitsForAFullMember) {
  const FrameBytes frame = SendMoreThanBobTakes();
  EXPECT_FALSE(rig_.Process(kAlice).Send(frame)) << "its own ring is full, too";
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNap);
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), kSlots);
  rig_.RunOnce();
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), kSlots);
  EXPECT_EQ(rig_.counters().dropped_no_room, 0u);
  EXPECT_EQ(rig_.cable->TakeSent().size(), 2 * kSlots) << "each of them once";
}

TEST_F(ForwarderTest, MemberThatTakesNothingIsWaitedForOnce) {
  const FrameBytes frame = SendMoreThanBobTakes();
  rig_.RunOnce(WaitBudget::kMost);
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent().size(), 2 * kSlots);
  EXPECT_EQ(rig_.counters().dropped_no_room, kSlots);
  // The sender does not wait again until Bob takes frames.
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(rig_.Process(kAlice).Send(frame));
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_no_room, kSlots + 10);
}

// A hostile member takes a frame whenever the sender is about to give up. The sender waits 0.1 ms
// for it.
TEST_F(ForwarderTest, MemberThatTakesFramesSlowlyEarnsASmallWaitBudget) {
  const FrameBytes frame = SendMoreThanBobTakes();
  rig_.RunOnce(WaitBudget::kMost);
  rig_.Run();
  rig_.cable->TakeSent();
  for (int round = 0; round < 20; ++round) {
    rig_.Process(kBob).link().Receive();
    rig_.Process(kBob).link().Release();
    rig_.Process(kBob).link().Flush();
    ASSERT_TRUE(rig_.Process(kAlice).Send(frame));
    ASSERT_TRUE(rig_.Process(kAlice).Send(frame));
    rig_.RunOnce();
    rig_.RunOnce(WaitBudget::kEarnedByAFrame * 2);
    rig_.Run();
    ASSERT_EQ(rig_.cable->TakeSent().size(), 2u) << round;
  }
}

TEST_F(ForwarderTest, CopiesToALargeGroupLeaveOtherSendersTheirTurn) {
  rig_.cable->room = 10'000;
  constexpr Block kMembers = 100;
  constexpr Block kFirst = 600;
  for (Block i = 0; i < kMembers; ++i) {
    rig_.Process(kFirst + i);
    Join(kFirst + i);
  }
  Declare(kBob, 42);
  const FrameBytes unicast = ToWire(kRcSendOnly).Build();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(Numbered(ToGroup(QpOf(kAlice, 1)), 7)));
  }
  rig_.Process(kBob);
  rig_.RunOnce();
  rig_.cable->TakeSent();
  int passes = 0;
  for (uint64_t copies = rig_.counters().multicast_copies; copies < 3 * kMembers; ++passes) {
    ASSERT_TRUE(rig_.Process(kBob).Send(unicast));
    rig_.RunOnce();
    const uint64_t now = rig_.counters().multicast_copies;
    EXPECT_LE(now - copies, static_cast<uint64_t>(Forwarder::kUplinkBurst));
    const Frames sent = rig_.cable->TakeSent();
    EXPECT_NE(std::find(sent.begin(), sent.end(), unicast), sent.end());
    copies = now;
  }
  EXPECT_GE(passes, 3 * 100 / Forwarder::kUplinkBurst - 1);
  for (Block i = 0; i < kMembers; ++i) {
    EXPECT_EQ(rig_.Process(kFirst + i).Receive().size(), 3u) << i;
  }
}

TEST_F(ForwarderTest, CopiesOfAFrameFromTheWireAreMadeInSeveralPasses) {
  constexpr Block kMembers = 100;
  constexpr Block kFirst = 600;
  for (Block i = 0; i < kMembers; ++i) {
    rig_.Process(kFirst + i);
    Join(kFirst + i);
  }
  RoceSpec spec = ToGroup({77});
  spec.source = kFarIpv4;
  for (int i = 0; i < 3; ++i) rig_.cable->Deliver(spec.Build());
  rig_.RunOnce();
  EXPECT_EQ(rig_.counters().multicast_copies, static_cast<uint64_t>(Forwarder::kWireCopies));
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNone);
  rig_.Run();
  EXPECT_EQ(rig_.counters().multicast_copies, 3u * kMembers);
  EXPECT_EQ(rig_.counters().frames_from_wire, 3u);
  for (Block i = 0; i < kMembers; ++i) {
    EXPECT_EQ(rig_.Process(kFirst + i).Receive().size(), 3u) << i;
  }
}

TEST_F(ForwarderTest, FrameLongerThanASlotIsDropped) {
  rig_.Process(kAlice);
  FrameBytes frame = RoceSpec{}.Build();
  frame.resize(2 * kSlotBytes);  // Ethernet's padding
  rig_.cable->Deliver(frame);
  rig_.Run();
  EXPECT_TRUE(rig_.Process(kAlice).Receive().empty());
  EXPECT_EQ(rig_.counters().dropped_malformed, 1u);
}

TEST_F(ForwarderTest, ProcessThatDoesNotReceiveDelaysNoOther) {
  rig_.Process(kAlice);
  rig_.Process(kBob);
  for (uint32_t i = 0; i < kSlots + 10; ++i) rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.cable->Deliver(RoceSpec{.destination_qpn = QpOf(kBob, 5)}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.Process(kBob).Receive().size(), 1u);
  EXPECT_EQ(rig_.counters().dropped_no_room, 10u);
  EXPECT_EQ(rig_.Process(kAlice).Receive().size(), kSlots);
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.Process(kAlice).Receive().size(), 1u);
}

TEST_F(ForwarderTest, UplinkOfADeadProcessIsDrainedAndThenClosed) {
  Declare(kAlice, 42);
  rig_.Run();
  for (uint8_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(Numbered(ToWire(kRcSendOnly), i)));
  }
  rig_.Process(kAlice).Die();
  rig_.RunFor(Milliseconds(5));
  EXPECT_EQ(rig_.cable->sent_count(), 100u);
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
  EXPECT_TRUE(rig_.broken_uplinks.empty());
  EXPECT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kSleep);
}

TEST_F(ForwarderTest, DeadProcessGetsNothingWhileItsFramesWaitForTheWire) {
  Declare(kAlice, 42);
  rig_.cable->room = 0;
  ASSERT_TRUE(rig_.Process(kAlice).Send(ToWire(kRcSendOnly).Build()));
  rig_.Process(kAlice).Die();
  rig_.RunFor(Milliseconds(5));
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
  EXPECT_FALSE(rig_.has_socket_news());  // the switch has seen the end of Alice
  rig_.cable->room = 1;
  rig_.Run();
  EXPECT_EQ(rig_.cable->sent_count(), 1u);
}

TEST_F(ForwarderTest, DeadProcessIsClosedOnceAFullWireHasRoom) {
  Declare(kAlice, 42);
  rig_.Process(kAlice);
  rig_.Process(kBob);
  rig_.cable->room = 0;
  ASSERT_TRUE(rig_.Process(kAlice).Send(ToWire(kRcSendOnly).Build()));
  rig_.Run();
  rig_.Process(kBob).FeignDeath();
  rig_.RunFor(Milliseconds(5));  // Bob's turn does not come
  EXPECT_TRUE(rig_.Process(kBob).link().peer_alive());
  rig_.cable->room = SIZE_MAX;
  rig_.Run();
  EXPECT_FALSE(rig_.Process(kBob).link().peer_alive());
}

TEST_F(ForwarderTest, OnlyTheProcessThatWritesNonsenseIsCutOff) {
  Declare(kAlice, 42);
  Declare(kBob, 43);
  rig_.Process(kBob);
  rig_.Process(kAlice).PublishNonsense();
  ASSERT_TRUE(rig_.Process(kBob).Send(ToWire(kRcSendOnly, {43}).Build()));
  rig_.Run();
  EXPECT_EQ(rig_.broken_uplinks, std::vector<Block>{kAlice});
  EXPECT_EQ(rig_.counters().dropped_malformed, 1u);
  EXPECT_FALSE(rig_.Process(kAlice).link().peer_alive());
  EXPECT_EQ(rig_.cable->sent_count(), 1u);
  // A new link works: the declarations are kept.
  ASSERT_TRUE(rig_.Restart(kAlice).Send(ToWire(kRcSendOnly, {42}).Build()));
  rig_.Run();
  EXPECT_EQ(rig_.cable->sent_count(), 2u);
}

// The process sleeps when the switch finds the nonsense, on a frame for that process.
TEST_F(ForwarderTest, ProcessThatReleasesNonsenseIsCutOff) {
  rig_.Process(kAlice);
  rig_.RunFor(Milliseconds(5));
  for (uint32_t i = 0; i < kSlots; ++i) rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  rig_.RunFor(Milliseconds(5));
  rig_.Process(kAlice).ReleaseNonsense();
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.broken_uplinks, std::vector<Block>{kAlice});
  EXPECT_EQ(rig_.counters().dropped_no_room, 1u);
  rig_.RunFor(Milliseconds(1));
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
}

TEST_F(ForwarderTest, SecondUplinkReplacesTheFirst) {
  Declare(kAlice, 42);
  RingProcess first;
  ASSERT_EQ(rig_.forwarder.ConnectUplink(rig_.now, kAlice, first.TakeSwitchEnd()), 0);
  rig_.Process(kAlice);
  EXPECT_FALSE(first.link().peer_alive());
  ASSERT_TRUE(rig_.Process(kAlice).Send(ToWire(kRcSendOnly).Build()));
  rig_.cable->Deliver(RoceSpec{}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.cable->sent_count(), 1u);
  EXPECT_EQ(rig_.Process(kAlice).Receive().size(), 1u);
}

// The wire joins with the first member and leaves with the last, in whatever way that member ends.
TEST_F(ForwarderTest, WireIsAMemberOfTheGroupsOfProcesses) {
  EXPECT_EQ(rig_.forwarder.JoinGroup(kAlice, kGroup), 0);
  EXPECT_EQ(rig_.forwarder.JoinGroup(kBob, kGroup), 0);
  EXPECT_EQ(rig_.forwarder.JoinGroup(kBob, kIpv6Group), 0);
  EXPECT_EQ(rig_.forwarder.JoinGroup(kBob, kFarIpv4), EINVAL);
  EXPECT_EQ(rig_.cable->groups(), (std::set{kGroup, kIpv6Group}));
  rig_.forwarder.LeaveGroup(kAlice, kGroup);
  rig_.forwarder.LeaveGroup(kAlice, kIpv6Group);  // Alice is no member
  EXPECT_EQ(rig_.cable->groups(), (std::set{kGroup, kIpv6Group}));
  rig_.forwarder.Remove(rig_.now, kBob);
  EXPECT_EQ(rig_.cable->groups(), std::set<Gid>{});
}

TEST_F(ForwarderTest, WireLimitsTheGroups) {
  EXPECT_EQ(rig_.forwarder.max_groups(), FakeWire::kMaxGroups);
  EXPECT_EQ(ForwarderRig({.has_wire = false}).forwarder.max_groups(), SIZE_MAX);
}

TEST_F(ForwarderTest, GroupThatTheWireRefusesIsNotJoined) {
  rig_.cable->SetJoinAnswer(PacketPort::PathState::kRefused);
  EXPECT_EQ(rig_.forwarder.JoinGroup(kAlice, kGroup), ENOSPC);
  EXPECT_TRUE(rig_.forwarder.table().Members(kGroup).empty());
  // If the wire can join only later, members on this host are joined at once.
  rig_.cable->SetJoinAnswer(PacketPort::PathState::kUnreachable);
  EXPECT_EQ(rig_.forwarder.JoinGroup(kAlice, kGroup), 0);
  EXPECT_EQ(rig_.forwarder.table().Members(kGroup).size(), 1u);
}

TEST_F(ForwarderTest, RemoveSendsPendingFramesAndForgetsTheProcess) {
  Declare(kAlice, 42);
  Join(kAlice);
  for (uint8_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(Numbered(ToWire(kRcSendOnly), i)));
  }
  rig_.forwarder.Remove(rig_.now, kAlice);
  EXPECT_EQ(rig_.cable->sent_count(), 200u);
  EXPECT_FALSE(rig_.Process(kAlice).link().peer_alive());
  EXPECT_TRUE(rig_.forwarder.table().Members(kGroup).empty());
  EXPECT_FALSE(rig_.forwarder.table().IsDeclared(kAlice, kFarIpv4, {42}));
  ASSERT_TRUE(rig_.Restart(kAlice).Send(ToWire(kRcSendOnly).Build()));
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_not_declared, 1u);
}

TEST_F(ForwarderTest, ForgetSendsPendingFramesOfTheQueuePair) {
  Declare(kAlice, 42);
  ASSERT_TRUE(rig_.Process(kAlice).Send(ToWire(kRcSendOnly).Build()));
  rig_.forwarder.Forget(rig_.now, kAlice, QpOf(kAlice, 5));
  EXPECT_EQ(rig_.cable->sent_count(), 1u);
}

TEST_F(ForwarderTest, RemoveDoesNotWaitForAFullWire) {
  Declare(kAlice, 42);
  rig_.cable->room = 5;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(ToWire(kRcSendOnly).Build()));
  }
  rig_.forwarder.Remove(rig_.now, kAlice);
  EXPECT_EQ(rig_.cable->sent_count(), 5u);
  rig_.forwarder.Remove(rig_.now, kAlice);
}

}  // namespace
}  // namespace uroce::nic
