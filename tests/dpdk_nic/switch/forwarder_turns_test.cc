// Processes share the switch: each may send a limited number of frames a turn.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "dpdk_nic/switch/forwarder.h"
#include "tests/dpdk_nic/switch/forwarder_rig.h"

namespace uroce::nic {
namespace {

using control::Block;
using Frames = std::vector<FrameBytes>;

constexpr Block kCarol = 512;

class ForwarderTurnsTest : public testing::Test {
 protected:
  void Declare(Block block, uint32_t remote) {
    ASSERT_EQ(rig_.forwarder.table().Declare(block, {QpOf(block, 5), {remote}, kFarIpv4}), 0);
  }
  // Fills the sender's ring with frames to the remote queue pair.
  void Fill(Block sender, uint32_t remote) {
    while (rig_.Process(sender).Send(ToWire(kRcSendOnly, {remote}).Build())) {
    }
  }

  ForwarderRig rig_;
};

TEST_F(ForwarderTurnsTest, WireThatTakesLittleIsSharedEvenly) {
  constexpr Block kSenders[] = {kAlice, kBob, kCarol};
  for (const Block sender : kSenders) Declare(sender, sender);
  size_t sent[std::size(kSenders)] = {};
  for (int pass = 0; pass < 300; ++pass) {
    for (const Block sender : kSenders) {
      while (rig_.Process(sender).Send(ToWire(kRcSendOnly, {sender}).Build())) {
      }
    }
    rig_.cable->room = 7 + pass % 5;
    rig_.RunOnce();
    for (const FrameBytes& frame : rig_.cable->TakeSent()) {
      for (size_t i = 0; i < std::size(kSenders); ++i) {
        sent[i] += frame == ToWire(kRcSendOnly, {kSenders[i]}).Build();
      }
    }
  }
  const auto [least, most] = std::minmax_element(std::begin(sent), std::end(sent));
  EXPECT_GT(*least, 800u);
  EXPECT_LE(*most - *least, 2u * Forwarder::kUplinkBurst);
}

// The wire is full whenever the second sender has its turn.
TEST_F(ForwarderTurnsTest, WireThatTakesOneBurstIsSharedByTwo) {
  Declare(kAlice, kAlice);
  Declare(kBob, kBob);
  for (int pass = 0; pass < 10; ++pass) {
    for (const Block sender : {kAlice, kBob}) {
      while (rig_.Process(sender).Send(ToWire(kRcSendOnly, {sender}).Build())) {
      }
    }
    rig_.cable->room = Forwarder::kUplinkBurst;
    rig_.RunOnce();
  }
  const Frames sent = rig_.cable->TakeSent();
  EXPECT_EQ(sent.size(), 10u * Forwarder::kUplinkBurst);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), ToWire(kRcSendOnly, {kBob}).Build()),
            5 * Forwarder::kUplinkBurst);
}

TEST_F(ForwarderTurnsTest, OneSenderDoesNotStarveOtherSenders) {
  Declare(kAlice, 42);
  Declare(kBob, 43);
  while (rig_.Process(kAlice).Send(ToWire(kRcSendOnly, {42}).Build())) {
  }
  const FrameBytes frame = ToWire(kRcSendOnly, {43}).Build();
  ASSERT_TRUE(rig_.Process(kBob).Send(frame));
  rig_.RunOnce();
  const Frames sent = rig_.cable->TakeSent();
  EXPECT_EQ(std::count(sent.begin(), sent.end(), frame), 1);
  EXPECT_EQ(sent.size(), Forwarder::kUplinkBurst + 1u);
}

TEST_F(ForwarderTurnsTest, RepeatedForgetGivesNoExtraTurns) {
  Declare(kAlice, kAlice);
  Declare(kBob, kBob);
  std::ptrdiff_t alices = 0, bobs = 0;
  for (int pass = 0; pass < 100; ++pass) {
    Fill(kBob, kBob);
    for (int i = 0; i < 3; ++i) {
      Fill(kAlice, kAlice);
      rig_.forwarder.Forget(rig_.now, kAlice, QpOf(kAlice, 6));
    }
    rig_.RunOnce();
    const Frames sent = rig_.cable->TakeSent();
    alices += std::count(sent.begin(), sent.end(), ToWire(kRcSendOnly, {kAlice}).Build());
    bobs += std::count(sent.begin(), sent.end(), ToWire(kRcSendOnly, {kBob}).Build());
  }
  EXPECT_EQ(bobs, 100 * Forwarder::kUplinkBurst);
  EXPECT_LE(alices, bobs + Forwarder::kOutOfTurn);
  // And no less: once Alice has paid back, she is served again.
  EXPECT_GE(alices, bobs - Forwarder::kUplinkBurst);
}

TEST_F(ForwarderTurnsTest, FramesSentOutOfTurnDoNotStrandLaterFrames) {
  Declare(kAlice, kAlice);
  Fill(kAlice, kAlice);
  rig_.forwarder.Forget(rig_.now, kAlice, QpOf(kAlice, 6));
  EXPECT_EQ(rig_.cable->TakeSent().size(), size_t{kSlots});
  Fill(kAlice, kAlice);
  // Alice has turns to pay back, and the switch must not sleep meanwhile.
  while (rig_.cable->sent_count() < kSlots) {
    rig_.RunOnce();
    if (rig_.cable->sent_count() < kSlots) {
      ASSERT_EQ(rig_.forwarder.PlanSleep().kind, SleepPlan::Kind::kNone);
      rig_.forwarder.EndSleep();
    }
  }
}

}  // namespace
}  // namespace uroce::nic
