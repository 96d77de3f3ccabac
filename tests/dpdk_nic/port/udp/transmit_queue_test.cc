#include "dpdk_nic/port/udp/transmit_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;

const Gid kFar6 = {{0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};

class TransmitQueueTest : public testing::Test {
 protected:
  void Add(const UdpFrameSpec& spec) {
    ASSERT_FALSE(queue_->Room().empty());
    ASSERT_TRUE(queue_->Commit(spec.Build(queue_->built())));
  }
  // The frame as the kernel would put it on the wire.
  std::vector<uint8_t> OnWire(size_t index, uint16_t identification) {
    const OutgoingPacket& packet = queue_->packet(index);
    UdpFrameSpec spec = {.source = packet.flow.source, .destination = packet.flow.destination};
    const auto payload = queue_->payload(index);
    spec.payload_bytes = static_cast<uint32_t>(payload.size() - 16);
    spec.source_port = 4791;
    std::vector<uint8_t> wire = spec.Build();
    if (!packet.flow.is_ipv6()) wire = WithIdentification(wire, identification);
    std::copy(payload.begin(), payload.end(), wire.end() - static_cast<ptrdiff_t>(payload.size()));
    return wire;
  }

  std::unique_ptr<TransmitQueue> queue_ = std::make_unique<TransmitQueue>();
};

TEST_F(TransmitQueueTest, RunEndsBehindAShorterFrameAndBeforeALongerOne) {
  for (uint32_t bytes : {1'024u, 1'024u, 1'024u, 100u, 100u, 1'024u}) Add({.payload_bytes = bytes});
  EXPECT_EQ(queue_->RunAt(0, true), 4u);
  EXPECT_EQ(queue_->RunAt(4, true), 1u);
  EXPECT_EQ(queue_->RunAt(5, true), 1u);
  EXPECT_EQ(queue_->RunAt(0, false), 1u);
}

TEST_F(TransmitQueueTest, RunGoesToOnePlaceMarkedAlike) {
  Add({});
  Add({});
  Add({.traffic_class = 2});
  Add({.traffic_class = 2, .hop_limit = 1});
  Add({.destination = Gid::FromIpv4({10, 0, 0, 3})});
  EXPECT_EQ(queue_->RunAt(0, true), 2u);
  EXPECT_EQ(queue_->RunAt(2, true), 1u);
  EXPECT_EQ(queue_->RunAt(3, true), 1u);
  EXPECT_EQ(queue_->RunAt(4, true), 1u);
}

TEST_F(TransmitQueueTest, RunIsLimitedByPacketSizeAndSegmentCount) {
  while (!queue_->Room().empty()) Add({.payload_bytes = 4'096});
  EXPECT_EQ(queue_->size(), TransmitQueue::kPackets);
  EXPECT_EQ(queue_->RunAt(0, true), 65'507u / (4'096 + 16));
  queue_->Drop(queue_->size());
  while (!queue_->Room().empty()) Add({.payload_bytes = 8});
  EXPECT_EQ(queue_->RunAt(0, true), 64u);
}

TEST_F(TransmitQueueTest, RunIsOnePieceOfMemory) {
  for (uint32_t bytes : {1'024u, 1'024u, 100u}) Add({.payload_bytes = bytes});
  EXPECT_EQ(queue_->payload(1).data(), queue_->payload(0).data() + queue_->payload(0).size());
  EXPECT_EQ(queue_->payload(2).data(), queue_->payload(1).data() + queue_->payload(1).size());
  EXPECT_EQ(queue_->payloads(0, 3).data(), queue_->payload(0).data());
  EXPECT_EQ(queue_->payloads(0, 3).size(), 2 * (1'024 + 16) + 100 + 16);
}

TEST_F(TransmitQueueTest, UnusedRoomLeavesQueuedPacketsIntact) {
  Add({.payload_bytes = 64});
  const auto payload = queue_->payload(0);
  const std::vector<uint8_t> before(payload.begin(), payload.end());
  std::ranges::fill(queue_->Room(), uint8_t{0xee});
  EXPECT_FALSE(queue_->Commit(100)) << "without a destination";
  EXPECT_TRUE(std::equal(before.begin(), before.end(), payload.begin()));
  EXPECT_EQ(queue_->size(), 1u);
}

TEST_F(TransmitQueueTest, DestinationOfAnUnusedRoomIsForgotten) {
  (void)UdpFrameSpec{}.Build(queue_->Room());
  EXPECT_EQ(queue_->built().flow->destination, UdpFrameSpec{}.destination);
  EXPECT_TRUE(queue_->Room().flow->destination.IsZero());
}

TEST_F(TransmitQueueTest, FramesOfBothIpVersionsFollowEachOther) {
  for (int i = 0; i < 3; ++i) {
    Add({});
    Add({.source = kFar6, .destination = kFar6});
    Add({.source = kFar6, .destination = kFar6});
  }
  for (size_t i = 0; i < queue_->size(); ++i) {
    queue_->Seal(i, 1, 4791);
    EXPECT_EQ(JudgeFrame(OnWire(i, 0)), DropReason::kNone) << i;
  }
}

TEST_F(TransmitQueueTest, SealedFramesAreValidWithTheKernelsIdentification) {
  for (uint32_t bytes : {0u, 8u, 1'024u, 4'096u}) {
    for (uint32_t psn = 0; psn < 5; ++psn) Add({.psn = psn, .payload_bytes = bytes});
    queue_->Seal(0, 5, 4791);
    for (uint16_t i = 0; i < 5; ++i) {
      EXPECT_EQ(JudgeFrame(OnWire(i, i)), DropReason::kNone) << bytes;
      EXPECT_EQ(JudgeFrame(OnWire(i, static_cast<uint16_t>(i + 1))), DropReason::kBadIcrc);
    }
    queue_->Drop(5);
  }
}

TEST_F(TransmitQueueTest, WholeRunsAreSealedOfSeveralConnectionsToo) {
  for (const bool is_ipv6 : {false, true}) {
    UdpFrameSpec spec;
    if (is_ipv6) spec.source = spec.destination = kFar6;
    for (uint32_t psn = 0; psn < TransmitQueue::kPackets; ++psn) {
      spec.psn = psn;
      spec.source_port = static_cast<uint16_t>(psn % 5 == 3 ? 0xc001 : 0xc000);
      spec.payload_bytes = psn == TransmitQueue::kPackets - 1 ? 4 : 1'024;
      Add(spec);
    }
    queue_->Seal(0, TransmitQueue::kPackets, 4791);
    for (uint16_t i = 0; i < TransmitQueue::kPackets; ++i) {
      EXPECT_EQ(JudgeFrame(OnWire(i, i)), DropReason::kNone) << i;
    }
    queue_->Drop(TransmitQueue::kPackets);
  }
}

TEST_F(TransmitQueueTest, FramesCanBeSealedAgainForAnotherRun) {
  for (uint32_t psn = 0; psn < 3; ++psn) Add({.psn = psn});
  queue_->Seal(0, 3, 4791);
  queue_->Seal(1, 1, 4791);
  EXPECT_EQ(JudgeFrame(OnWire(1, 0)), DropReason::kNone);
  queue_->Drop(1);
  EXPECT_EQ(JudgeFrame(OnWire(1, 2)), DropReason::kNone) << "the third as it was";
}

TEST_F(TransmitQueueTest, Ipv6HasNoIdentification) {
  Add({.source = kFar6, .destination = kFar6});
  Add({.source = kFar6, .destination = kFar6});
  queue_->Seal(0, 2, 4791);
  EXPECT_EQ(JudgeFrame(OnWire(0, 0)), DropReason::kNone);
  EXPECT_EQ(JudgeFrame(OnWire(1, 0)), DropReason::kNone);
}

TEST_F(TransmitQueueTest, DamagedIcrcStaysDamaged) {
  const size_t bytes = UdpFrameSpec{}.Build(queue_->Room());
  queue_->built()[20] ^= 1;
  ASSERT_TRUE(queue_->Commit(bytes));
  queue_->Seal(0, 1, 4791);
  EXPECT_EQ(JudgeFrame(OnWire(0, 0)), DropReason::kBadIcrc);
}

}  // namespace
}  // namespace uroce::nic
