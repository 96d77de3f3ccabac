// Datagrams between processes of a host that have no link yet.
#include <gtest/gtest.h>

#include <vector>

#include "dpdk_nic/port/ring/shm_ring.h"
#include "tests/dpdk_nic/switch/forwarder_rig.h"
#include "tests/dpdk_nic/switch/switch_frames.h"

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

TEST_F(ForwarderLocalTest, ProcessSendsOthersSoMuchInAMillisecondAndNoMore) {
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

}  // namespace
}  // namespace uroce::nic
