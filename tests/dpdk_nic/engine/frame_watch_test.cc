// What becomes of a frame that is received or sent while somebody watches: the tap, the flows of
// raw packet queue pairs, and the endpoint that comes before them.
#include "dpdk_nic/engine/frame_watch.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "tests/dpdk_nic/steering/ethernet_frames.h"
#include "tests/transport/connected_pair.h"

namespace uroce::nic {
namespace {

using Direction = FrameTap::Direction;
using transport::Gid;
using transport::IcrcUse;
using transport::QpState;
using transport::QueuePair;
using transport::Route;
using transport::Status;
using transport::Time;

constexpr uint16_t kRocePort = 4791;
constexpr Time kNow{1'000};

struct CountingTap : FrameTap {
  explicit CountingTap(int* count) : frames(count) {}
  void OnFrame(Time, Direction, std::span<const uint8_t>, IcrcUse) override { ++*frames; }
  int* frames;
};

FlowRule Rule(FlowRule::Kind kind) {
  FlowRule rule;
  rule.kind = kind;
  return rule;
}

class FrameWatchTest : public testing::Test {
 protected:
  FrameWatchTest()
      : host({.mac = kTo, .gids = {Gid::LinkLocal(kTo), Gid::FromIpv4(kToIpv4)}}), qp(Create()) {}

  QueuePair* Create() {
    using M = transport::QpAttributeMask;
    transport::QpInitAttributes init = host.qp->init_attributes();
    init.type = transport::QpType::kRawPacket;
    QueuePair* created = nullptr;
    EXPECT_EQ(host.endpoint.CreateQueuePair(init, &created), Status::kOk);
    transport::QpAttributes a;
    a.port_num = 1;
    a.state = QpState::kInit;
    EXPECT_EQ(created->Modify(a, M::kState | M::kPort), Status::kOk);
    a.state = QpState::kReadyToReceive;
    EXPECT_EQ(created->Modify(a, M::kState), Status::kOk);
    const transport::ScatterGatherEntry sge = {host.address(0), 2'000, host.key};
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(created->PostReceive({.wr_id = 1, .sges = {&sge, 1}}), Status::kOk);
    }
    return created;
  }
  uint64_t Add(FlowRule::Kind kind) { return *watch.AddFlow(Rule(kind), *qp); }
  bool Receive(const Frame& frame, Route from = Route::kWire) {
    return watch.OnReceived(kNow, {.bytes = frame, .from = from}, host.endpoint);
  }
  void Send(const Frame& frame, Direction direction) {
    watch.OnSent(kNow, direction, frame, IcrcUse::kCarried, host.endpoint);
  }
  size_t Copies() { return host.Poll().size(); }

  transport::TestHost host;
  QueuePair* qp;
  FrameWatch watch{nullptr, /*has_ethernet=*/true};
};

TEST_F(FrameWatchTest, IsOnAsLongAsThereAreFlows) {
  EXPECT_FALSE(watch.is_on());
  const uint64_t id = Add(FlowRule::Kind::kAllDefault);
  EXPECT_TRUE(watch.is_on());
  watch.RemoveFlow(id, Rule(FlowRule::Kind::kAllDefault));
  EXPECT_FALSE(watch.is_on());
  EXPECT_FALSE(Receive(UdpFrame(1, 2)));
}

TEST_F(FrameWatchTest, FlowTakesItsFrames) {
  FlowRule rule = Rule(FlowRule::Kind::kNormal);
  rule.value.destination_port = {0, 2};
  rule.mask.destination_port = {0xff, 0xff};
  ASSERT_TRUE(watch.AddFlow(rule, *qp));
  EXPECT_TRUE(Receive(UdpFrame(1, 2)));
  EXPECT_EQ(Copies(), 1u);
  EXPECT_FALSE(Receive(UdpFrame(1, 3)));
  EXPECT_EQ(Copies(), 0u);
}

// As on mlx5: RoCE for this host is the transport's, whatever the flows say.
TEST_F(FrameWatchTest, RoceForOurAddressesIsTheEndpoints) {
  Add(FlowRule::Kind::kAllDefault);
  EXPECT_FALSE(Receive(UdpFrame(1, kRocePort)));
  EXPECT_EQ(Copies(), 0u);
  Frame foreign = UdpFrame(1, kRocePort);
  foreign[14 + 19] ^= 1;  // the last byte of the destination address
  EXPECT_TRUE(Receive(foreign));
  EXPECT_TRUE(Receive(Tagged(UdpFrame(1, kRocePort), 0x8100, 5)));
  EXPECT_TRUE(Receive(UdpFrame(kRocePort, 1)));
  EXPECT_EQ(Copies(), 3u);
}

TEST_F(FrameWatchTest, RoceForOurGroupsIsTheEndpoints) {
  Add(FlowRule::Kind::kMulticastDefault);
  const std::array<uint8_t, 4> address = {239, 1, 2, 3};
  Frame frame = UdpFrame(1, kRocePort, {0x01, 0x00, 0x5e, 1, 2, 3});
  std::copy(address.begin(), address.end(), frame.begin() + 14 + 16);
  EXPECT_TRUE(Receive(frame));
  transport::QpInitAttributes init = host.qp->init_attributes();
  init.type = transport::QpType::kUnreliableDatagram;
  QueuePair* member = nullptr;
  ASSERT_EQ(host.endpoint.CreateQueuePair(init, &member), Status::kOk);
  ASSERT_EQ(host.endpoint.AttachMulticast(*member, Gid::FromIpv4(address)), Status::kOk);
  EXPECT_FALSE(Receive(frame));
  EXPECT_EQ(Copies(), 1u);
}

TEST_F(FrameWatchTest, SnifferSeesAllAndTakesNothing) {
  Add(FlowRule::Kind::kSniffer);
  EXPECT_FALSE(Receive(UdpFrame(1, 2)));
  EXPECT_FALSE(Receive(UdpFrame(1, kRocePort)));
  Send(UdpFrame(1, 2), Direction::kSent);
  EXPECT_EQ(Copies(), 3u);
}

// Frames that come back to the process, or by a link, were never on the wire.
TEST_F(FrameWatchTest, FramesThatAreNotOfTheWire) {
  Add(FlowRule::Kind::kSniffer);
  Add(FlowRule::Kind::kAllDefault);
  EXPECT_FALSE(Receive(UdpFrame(1, 2), Route::kLoopback));
  Send(UdpFrame(1, 2), Direction::kLoopedBack);
  EXPECT_EQ(Copies(), 0u);
}

TEST_F(FrameWatchTest, TapSeesWhatFlowsTake) {
  int tapped = 0;
  FrameWatch both(std::make_unique<CountingTap>(&tapped), /*has_ethernet=*/true);
  EXPECT_TRUE(both.is_on());
  const FlowRule rule = Rule(FlowRule::Kind::kAllDefault);
  const auto id = both.AddFlow(rule, *qp);
  const Frame frame = UdpFrame(1, 2);
  EXPECT_TRUE(both.OnReceived(kNow, {.bytes = frame}, host.endpoint));
  EXPECT_EQ(tapped, 1);
  EXPECT_EQ(Copies(), 1u);
  both.RemoveFlow(*id, rule);
  EXPECT_TRUE(both.is_on()) << "the tap is still there";
  EXPECT_FALSE(both.OnReceived(kNow, {.bytes = frame}, host.endpoint));
  EXPECT_EQ(tapped, 2);
}

}  // namespace
}  // namespace uroce::nic
