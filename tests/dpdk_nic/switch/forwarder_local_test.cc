// Datagrams between processes of a host that have no link yet.
#include <gtest/gtest.h>

#include <vector>

#include "dpdk_nic/port/ring/shm_ring.h"
#include "tests/dpdk_nic/switch/forwarder_rig.h"
#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/peers/peer_query.h"

namespace uroce::nic {
namespace {

using control::Block;
using Frames = std::vector<std::vector<uint8_t>>;

// Two processes that have no link yet.
RoceSpec DatagramBetween(Block from, Block to) {
  RoceSpec spec = DatagramToWire(QpOf(from, 1), QpOf(to, 2));
  spec.destination = kOurIpv4;
  return spec;
}

class ForwarderLocalTest : public ::testing::Test {
 protected:
  ForwarderRig rig_;
};

TEST_F(ForwarderLocalTest, DatagramsReachOtherProcessesOfTheHostWithOrWithoutAWire) {
  for (const bool has_wire : {true, false}) {
    ForwarderRig rig({.has_wire = has_wire});
    rig.Process(kBob);
    const auto frame = DatagramBetween(kAlice, kBob).Build();
    ASSERT_TRUE(rig.Process(kAlice).Send(frame));
    rig.Run();
    EXPECT_EQ(rig.Process(kBob).Receive(), Frames{frame});
    EXPECT_EQ(rig.counters().frames_between_processes, 1u);
    EXPECT_EQ(rig.counters().frames_to_wire, 0u);
  }
}

TEST_F(ForwarderLocalTest, BetweenProcessesOfTheHostOnlyHonestDatagramsPass) {
  rig_.Process(kBob);
  RoceSpec connected = DatagramBetween(kAlice, kBob);
  connected.opcode = kRcSendOnly;
  RoceSpec to_nobody = DatagramBetween(kAlice, 700);
  RoceSpec to_itself = DatagramBetween(kAlice, kAlice);
  RoceSpec to_the_switch = DatagramBetween(kAlice, 0);
  for (const RoceSpec& spec : {connected, to_nobody, to_itself, to_the_switch}) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(spec.Build()));
  }
  ASSERT_TRUE(rig_.Process(kAlice).Send(DatagramBetween(kBob, kBob + 1).Build()));
  rig_.Run();
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 4u);
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 1u) << "with the QPN of another process";
  EXPECT_EQ(rig_.counters().frames_between_processes, 0u);
  EXPECT_TRUE(rig_.Process(kBob).Receive().empty());
}

TEST_F(ForwarderLocalTest, ProcessFillsNoMoreThanHalfOfAnothersRing) {
  rig_.Process(kBob);
  const auto frame = DatagramBetween(kAlice, kBob).Build();
  for (uint32_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(rig_.Process(kAlice).Send(frame));
    rig_.Run();
  }
  EXPECT_EQ(rig_.counters().frames_between_processes, kSlots / 2);
  EXPECT_EQ(rig_.counters().dropped_no_room, kSlots / 2);
  rig_.cable->Deliver(RoceSpec{.destination_qpn = QpOf(kBob, 1)}.Build());
  rig_.Run();
  EXPECT_EQ(rig_.counters().frames_from_wire, 1u) << "there is room for the wire";
}

TEST_F(ForwarderLocalTest, LocalDatagramsOfAProcessAreLimitedPerMillisecond) {
  const auto send = [&](uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      const Block to = 500 + i % 10;
      rig_.Process(to);
      ASSERT_TRUE(rig_.Process(kAlice).Send(DatagramBetween(kAlice, to).Build()));
      rig_.forwarder.RunOnce(rig_.now);
      rig_.Process(to).Receive();
    }
  };
  send(Forwarder::kLocalDatagrams + 44);
  EXPECT_EQ(rig_.counters().frames_between_processes, Forwarder::kLocalDatagrams);
  EXPECT_EQ(rig_.counters().dropped_no_room, 44u);
  rig_.now = rig_.now + transport::Milliseconds(1);
  send(10);
  EXPECT_EQ(rig_.counters().frames_between_processes, Forwarder::kLocalDatagrams + 10);
}

// A process with sockets of its own received a frame for another process and passes it on.
class PassedOnTest : public testing::Test, public SocketSharing {
 protected:
  PassedOnTest() { rig_.forwarder.SetSharing(this); }

  bool has_sockets() const override { return false; }
  std::vector<UniqueFd> Share(Block) override { return {}; }
  void Unshare(Block block) override { unshared_.push_back(block); }

  ForwarderRig rig_;
  std::vector<Block> unshared_;
};

TEST_F(PassedOnTest, FrameFromTheWireIsPassedOnToItsProcess) {
  RingProcess& alice = rig_.Process(kAlice);
  RingProcess& bob = rig_.Process(kBob);
  const std::vector<uint8_t> frame = RoceSpec{.destination_qpn = QpOf(kBob, 5)}.Build();
  ASSERT_TRUE(alice.Send(frame));
  rig_.Run();
  EXPECT_EQ(bob.Receive(), Frames{frame});
  EXPECT_TRUE(alice.Receive().empty());
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().frames_passed_on, 1u);
}

TEST_F(PassedOnTest, ConnectionManagementGoesToTheListener) {
  constexpr uint64_t kService = 77;
  RingProcess& alice = rig_.Process(kAlice);
  RingProcess& bob = rig_.Process(kBob);
  ASSERT_EQ(rig_.forwarder.table().services().Add(kBob, ListenTo(kService)), 0);
  const std::vector<uint8_t> frame =
      Management({.first_id = 5, .request_service = kService}, RoceSpec{}).Build();
  ASSERT_TRUE(alice.Send(frame));
  rig_.Run();
  EXPECT_EQ(bob.Receive(), Frames{frame});
}

TEST_F(PassedOnTest, QueryOfAnotherHostIsAnswered) {
  RoceSpec query{
      .opcode = kUdSendOnly, .destination_qpn = kManagementQpn, .source_qpn = kManagementQpn};
  const transport::MadBytes mad = transport::EmitPeerQuery({.transaction_id = 1});
  query.payload.assign(mad.begin(), mad.end());
  ASSERT_TRUE(rig_.Process(kAlice).Send(query.Build()));
  rig_.Run();
  EXPECT_EQ(rig_.cable->TakeSent().size(), 1u);
  EXPECT_EQ(rig_.counters().peer_queries_answered, 1u);
}

TEST_F(PassedOnTest, FrameWithoutALocalReceiverIsDropped) {
  RingProcess& alice = rig_.Process(kAlice);
  ASSERT_TRUE(alice.Send(RoceSpec{.destination_qpn = QpOf(kBob, 5)}.Build()));
  RoceSpec to_group = ToGroup(QpOf(kBob, 5));
  to_group.source = kFarIpv4;
  ASSERT_TRUE(alice.Send(to_group.Build()));
  ASSERT_TRUE(alice.Send(RoceSpec{.destination = kFarIpv4}.Build()));
  rig_.Run();
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().frames_passed_on, 0u);
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 2u);
}

TEST_F(PassedOnTest, SocketsGoWithTheProcess) {
  rig_.Process(kAlice);
  rig_.forwarder.Remove(rig_.now, kAlice);
  EXPECT_EQ(unshared_, std::vector<Block>{kAlice});
}

// A fabric with several users gives no process sockets, so each process speaks for itself only.
TEST(NotPassedOnTest, FrameFromTheWireComesFromTheWireWhereNoProcessHasSockets) {
  ForwarderRig rig;
  RingProcess& alice = rig.Process(kAlice);
  RingProcess& bob = rig.Process(kBob);
  ASSERT_TRUE(alice.Send(RoceSpec{.destination_qpn = QpOf(kBob, 5)}.Build()));
  rig.Run();
  EXPECT_TRUE(bob.Receive().empty());
  EXPECT_EQ(rig.counters().dropped_foreign_source, 1u);
}

}  // namespace
}  // namespace uroce::nic
