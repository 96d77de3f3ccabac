// The receiver of each frame that arrives or is sent: the endpoint first, then the flows of raw
// packet queue pairs; and the tap.
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
using Receiver = FrameWatch::Receiver;
using transport::Gid;
using transport::IcrcUse;
using transport::QpState;
using transport::QueuePair;
using transport::Route;
using transport::Status;
using transport::Time;

constexpr uint16_t kRocePort = 4791;
constexpr Time kNow{1'000};
constexpr transport::MacAddress kGroup = {0x01, 0x00, 0x5e, 1, 2, 3};

struct Tapped {
  std::vector<IcrcUse> frames;
  int bursts = 0;
};

struct RecordingTap : FrameTap {
  explicit RecordingTap(Tapped* to) : tapped(to) {}
  void OnFrame(Time, Direction, std::span<const uint8_t>, IcrcUse icrc) override {
    tapped->frames.push_back(icrc);
  }
  void EndBurst() override { ++tapped->bursts; }
  Tapped* tapped;
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
  Receiver Receive(const Frame& frame, Route from = Route::kWire) {
    return watch.OnReceived(kNow, {.bytes = frame, .from = from}, host.endpoint);
  }
  void Send(const Frame& frame, Direction direction) {
    watch.OnSent(kNow, direction, frame, IcrcUse::kCarried, host.endpoint);
  }
  bool TurnsBack(const Frame& frame) { return watch.TurnsBack(kNow, frame, host.endpoint); }
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
  EXPECT_EQ(Receive(UdpFrame(1, 2)), Receiver::kEndpoint);
}

TEST_F(FrameWatchTest, FlowsWithTheSameRuleEndOneByOne) {
  const uint64_t first = Add(FlowRule::Kind::kAllDefault);
  const uint64_t second = Add(FlowRule::Kind::kAllDefault);
  watch.RemoveFlow(first, Rule(FlowRule::Kind::kAllDefault));
  EXPECT_TRUE(watch.is_on());
  EXPECT_EQ(Receive(UdpFrame(1, 2)), Receiver::kFlow);
  EXPECT_EQ(Copies(), 1u);
  watch.RemoveFlow(second, Rule(FlowRule::Kind::kAllDefault));
  EXPECT_FALSE(watch.is_on());
}

TEST_F(FrameWatchTest, FlowTakesItsFrames) {
  FlowRule rule = Rule(FlowRule::Kind::kNormal);
  rule.value.destination_port = {0, 2};
  rule.mask.destination_port = {0xff, 0xff};
  ASSERT_TRUE(watch.AddFlow(rule, *qp));
  EXPECT_EQ(Receive(UdpFrame(1, 2)), Receiver::kFlow);
  EXPECT_EQ(Copies(), 1u);
  EXPECT_EQ(Receive(UdpFrame(1, 3)), Receiver::kNobody);
  EXPECT_EQ(Copies(), 0u);
}

// As on mlx5: RoCE frames for this host go to the transport, whatever the flows say.
TEST_F(FrameWatchTest, RoceForOurAddressesIsTheEndpoints) {
  Add(FlowRule::Kind::kAllDefault);
  EXPECT_EQ(Receive(UdpFrame(1, kRocePort)), Receiver::kEndpoint);
  EXPECT_EQ(Copies(), 0u);
  Frame foreign = UdpFrame(1, kRocePort);
  foreign[14 + 19] ^= 1;  // the last byte of the destination address
  EXPECT_EQ(Receive(foreign), Receiver::kFlow);
  EXPECT_EQ(Receive(Tagged(UdpFrame(1, kRocePort), 0x8100, 5)), Receiver::kFlow);
  EXPECT_EQ(Receive(UdpFrame(kRocePort, 1)), Receiver::kFlow);
  const Frame tcp = Ipv4Packet(kTcpNumber, Segment(1, kRocePort));
  EXPECT_EQ(Receive(EthernetFrame(transport::EthernetHeader::kIpv4, tcp)), Receiver::kFlow);
  EXPECT_EQ(Copies(), 4u);
}

// The endpoint counts the reason of the drop, which says more than "no flow".
TEST_F(FrameWatchTest, RoceThatNoFlowTakesIsTheEndpoints) {
  Add(FlowRule::Kind::kMulticastDefault);
  Frame foreign = UdpFrame(1, kRocePort);
  foreign[14 + 19] ^= 1;  // the last byte of the destination address
  EXPECT_EQ(Receive(foreign), Receiver::kEndpoint);
  EXPECT_EQ(Receive(Tagged(foreign, 0x8100, 5)), Receiver::kNobody);
}

TEST_F(FrameWatchTest, RoceForOurGroupsIsTheEndpoints) {
  Add(FlowRule::Kind::kMulticastDefault);
  const std::array<uint8_t, 4> address = {239, 1, 2, 3};
  Frame frame = UdpFrame(1, kRocePort, {0x01, 0x00, 0x5e, 1, 2, 3});
  std::copy(address.begin(), address.end(), frame.begin() + 14 + 16);
  EXPECT_EQ(Receive(frame), Receiver::kFlow);
  transport::QpInitAttributes init = host.qp->init_attributes();
  init.type = transport::QpType::kUnreliableDatagram;
  QueuePair* member = nullptr;
  ASSERT_EQ(host.endpoint.CreateQueuePair(init, &member), Status::kOk);
  ASSERT_EQ(host.endpoint.AttachMulticast(*member, Gid::FromIpv4(address)), Status::kOk);
  EXPECT_EQ(Receive(frame), Receiver::kEndpoint);
  EXPECT_EQ(Copies(), 1u);
}

TEST_F(FrameWatchTest, SnifferSeesAllAndTakesNothing) {
  Add(FlowRule::Kind::kSniffer);
  EXPECT_EQ(Receive(UdpFrame(1, 2)), Receiver::kEndpoint);
  EXPECT_EQ(Receive(UdpFrame(1, kRocePort)), Receiver::kEndpoint);
  Send(UdpFrame(1, 2), Direction::kSent);
  EXPECT_EQ(Copies(), 3u);
}

// Frames that come by loopback or by a link were never on the wire.
TEST_F(FrameWatchTest, FramesThatAreNotOfTheWire) {
  Add(FlowRule::Kind::kSniffer);
  Add(FlowRule::Kind::kAllDefault);
  EXPECT_EQ(Receive(UdpFrame(1, 2), Route::kLoopback), Receiver::kEndpoint);
  Send(UdpFrame(1, 2), Direction::kLoopedBack);
  EXPECT_EQ(Copies(), 0u);
}

TEST_F(FrameWatchTest, FrameToOurOwnAddressTurnsBackToItsFlow) {
  Add(FlowRule::Kind::kAllDefault);
  EXPECT_TRUE(TurnsBack(UdpFrame(1, 2)));
  EXPECT_EQ(Copies(), 1u);
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 2, kFrom))) << "the wire has it";
  EXPECT_FALSE(TurnsBack(UdpFrame(1, kRocePort))) << "the transport's own";
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 2, kGroup))) << "a default flow";
  EXPECT_EQ(Copies(), 0u);
}

TEST_F(FrameWatchTest, FrameToAGroupLeavesAndComesBackToTheFlowsForIt) {
  FlowRule rule = Rule(FlowRule::Kind::kNormal);
  rule.value.destination_port = {0, 2};
  rule.mask.destination_port = {0xff, 0xff};
  ASSERT_TRUE(watch.AddFlow(rule, *qp));
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 2, kGroup))) << "others may be members";
  EXPECT_EQ(Copies(), 1u);
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 3, kGroup))) << "no flow takes it";
  EXPECT_EQ(Copies(), 0u);
  Add(FlowRule::Kind::kSniffer);
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 2, kGroup)));
  EXPECT_EQ(Copies(), 2u);
}

TEST_F(FrameWatchTest, FrameToAnAddressThatAFlowNamesTurnsBack) {
  FlowRule rule = Rule(FlowRule::Kind::kNormal);
  rule.value.destination_mac = kFrom;
  rule.mask.destination_mac.fill(0xff);
  rule.value.destination_port = {0, 2};
  rule.mask.destination_port = {0xff, 0xff};
  ASSERT_TRUE(watch.AddFlow(rule, *qp));
  EXPECT_TRUE(TurnsBack(UdpFrame(1, 2, kFrom)));
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 3, kFrom))) << "no flow takes it";
  EXPECT_FALSE(TurnsBack(UdpFrame(1, 2))) << "no flow takes it";
  EXPECT_EQ(Copies(), 1u);
}

// A sniffer sees the frame as it leaves and as it arrives; the tap sees it once.
TEST_F(FrameWatchTest, SnifferAndTapSeeFramesThatTurnBack) {
  Tapped tapped;
  FrameWatch both(std::make_unique<RecordingTap>(&tapped), /*has_ethernet=*/true);
  const Frame frame = UdpFrame(1, 2);
  ASSERT_TRUE(both.AddFlow(Rule(FlowRule::Kind::kSniffer), *qp));
  EXPECT_FALSE(both.TurnsBack(kNow, frame, host.endpoint));
  ASSERT_TRUE(both.AddFlow(Rule(FlowRule::Kind::kAllDefault), *qp));
  EXPECT_TRUE(both.TurnsBack(kNow, frame, host.endpoint));
  EXPECT_EQ(Copies(), 3u);
  EXPECT_EQ(tapped.frames.size(), 1u);
}

TEST_F(FrameWatchTest, TapSeesFramesTakenByFlows) {
  Tapped tapped;
  FrameWatch both(std::make_unique<RecordingTap>(&tapped), /*has_ethernet=*/true);
  EXPECT_TRUE(both.is_on());
  const FlowRule rule = Rule(FlowRule::Kind::kAllDefault);
  const auto id = both.AddFlow(rule, *qp);
  const Frame frame = UdpFrame(1, 2);
  EXPECT_EQ(both.OnReceived(kNow, {.bytes = frame}, host.endpoint), Receiver::kFlow);
  EXPECT_EQ(tapped.frames.size(), 1u);
  EXPECT_EQ(Copies(), 1u);
  both.RemoveFlow(*id, rule);
  EXPECT_TRUE(both.is_on()) << "the tap is still there";
  EXPECT_EQ(both.OnReceived(kNow, {.bytes = frame}, host.endpoint), Receiver::kEndpoint);
  EXPECT_EQ(tapped.frames.size(), 2u);
}

TEST_F(FrameWatchTest, TapReceivesIcrcUseAndEndOfBurst) {
  Tapped tapped;
  FrameWatch taps(std::make_unique<RecordingTap>(&tapped), /*has_ethernet=*/true);
  const Frame frame = UdpFrame(1, kRocePort);
  taps.EndBurst();
  EXPECT_EQ(tapped.bursts, 0) << "nothing was tapped";
  taps.OnReceived(kNow, {.bytes = frame}, host.endpoint);
  taps.OnReceived(kNow, {.bytes = frame, .icrc = transport::IcrcUse::kWaived}, host.endpoint);
  taps.OnSent(kNow, Direction::kSent, frame, IcrcUse::kWaived, host.endpoint);
  EXPECT_EQ(tapped.frames, (std::vector{IcrcUse::kCarried, IcrcUse::kWaived, IcrcUse::kWaived}));
  for (int i = 0; i < 2; ++i) taps.EndBurst();
  EXPECT_EQ(tapped.bursts, 1);
}

}  // namespace
}  // namespace uroce::nic
