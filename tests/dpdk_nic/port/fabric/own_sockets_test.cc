// A port of a fabric whose processes send by UDP sockets of their own, and another host at the
// other end of a veth pair.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/fabric/fabric_neighbors.h"
#include "dpdk_nic/port/fabric/fabric_port.h"
#include "dpdk_nic/port/udp/udp_port.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;
using transport::Qpn;

constexpr uint32_t kMtuBytes = 4'200;
constexpr int kTimeoutMs = 60'000;
constexpr uint16_t kRocePort = 4'791;
constexpr Qpn kManagement{1};

const Gid kNear = Gid::FromIpv4({10, 77, 0, 1});
const Gid kFar = Gid::FromIpv4({10, 77, 0, 2});
const Gid kNear6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const Gid kFar6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

control::Welcome OwnSocketsFabric() {
  control::Welcome welcome = FakeUroced::WiredFabric();
  welcome.mtu_bytes = kMtuBytes;
  welcome.by_own_sockets = 1;
  welcome.gid_count = 3;
  welcome.gids[1] = kNear;
  welcome.gids[2] = kNear6;
  return welcome;
}

class OwnSocketsTest : public FabricPortTest {
 protected:
  OwnSocketsTest() : FabricPortTest(OwnSocketsFabric()) {}

  static void SetUpTestSuite() {
    pair_ = new VethPair(kMtuBytes);
    if (pair_->problem().empty()) VethPair::Run("ip link set lo up");
  }
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
  }

  static PacketPort::Path PathTo(const Gid& remote) {
    return {.route = Route::kWire, .local = {7}, .remote = {0x11}, .remote_gid = remote};
  }
  // A port that is connected with a queue pair of the other host.
  std::unique_ptr<FabricPort> NewConnectedPort(const Gid& remote = kFar) {
    auto port = NewPort();
    EXPECT_EQ(PrepareUntilAnswered(*port, PathTo(remote), [&] { ServeAll(*port); }),
              PathState::kReady);
    return port;
  }
  FakeUroced::Client& ClientOf(const FabricPort& port) { return uroced_->client(BlockOf(port)); }
  // What the process sent by its ring to uroced, in frames.
  int CountAtUroced(const FabricPort& port) {
    int count = 0;
    RingLink* const uplink = ClientOf(port).uplink.get();
    while (uplink != nullptr && !uplink->Receive().empty()) {
      uplink->Release();
      ++count;
    }
    if (uplink != nullptr) uplink->Flush();
    return count;
  }

  // A port of the other host.
  static std::unique_ptr<UdpPort> OpenFar() {
    const UniqueFd near(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    const UniqueFd far(open(pair_->far_namespace().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(setns(far.get(), CLONE_NEWNET), 0);
    auto port = UdpPort::Open({kFar, kFar6}, 0);
    EXPECT_EQ(setns(near.get(), CLONE_NEWNET), 0);
    EXPECT_TRUE(port.ok()) << (port.ok() ? "" : port.error());
    return port.ok() ? std::move(port).value() : nullptr;
  }

  static bool Send(PacketPort& port, const UdpFrameSpec& spec) {
    const auto room = port.AcquireTransmit(Route::kWire);
    if (room.empty()) return false;
    port.CommitTransmit(spec.Build(room));
    port.Flush();
    return true;
  }
  // The next frame, read; PSN 0 if none comes.
  static transport::Packet Receive(PacketPort& port) {
    transport::Packet packet;
    while (true) {
      port.BeginReceiveBurst();
      const auto frame = port.Receive().bytes;
      if (!frame.empty()) {
        EXPECT_EQ(ParseFrame(frame, packet), DropReason::kNone);
        port.ReleaseReceived();
        return packet;
      }
      pollfd poller = {.fd = port.wait_fd(), .events = POLLIN, .revents = 0};
      if (poll(&poller, 1, kTimeoutMs) == 1) continue;
      ADD_FAILURE() << "nothing came";
      return packet;
    }
  }

  static const VethPair* pair_;
};

const VethPair* OwnSocketsTest::pair_ = nullptr;

TEST_F(OwnSocketsTest, FramesToAnotherHostDoNotCrossUroced) {
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  for (const auto& [own, other] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    for (uint32_t psn = 1; psn <= 5; ++psn) {
      ASSERT_TRUE(Send(*port, {.source = own, .destination = other, .psn = psn}));
      const auto packet = Receive(*far);  // its ICRC is right
      EXPECT_EQ(packet.source_gid, own);
      EXPECT_EQ(packet.psn.value(), psn);
    }
  }
  EXPECT_EQ(CountAtUroced(*port), 0);
  EXPECT_EQ(port->counters().drops.total(), 0u);
}

TEST_F(OwnSocketsTest, DatagramsOfAProcessThatHasAnAddressHandleDoNotCrossUroced) {
  const auto far = OpenFar();
  const auto port = NewPort();
  FabricNeighbors neighbors(*port);
  neighbors.Resolve({}, kFar);
  ASSERT_TRUE(Send(*port, {.source = kNear, .destination = kFar, .psn = 9}));
  EXPECT_EQ(Receive(*far).psn.value(), 9u);
  EXPECT_EQ(ClientOf(*port).uplink, nullptr);
}

// Two processes of a host never have the same port to send from: what ICMP says of a frame comes to
// the process that sent it.
TEST_F(OwnSocketsTest, EachProcessSendsFromAPortOfItsOwn) {
  const auto addresses = AddressesAmong(std::vector{kNear});
  ASSERT_EQ(addresses.size(), 1u);
  const auto one = UdpSocket::Open({.gid = Gid::FromIpv4({})}, UdpSocket::Use::kSending);
  const auto other = UdpSocket::Open({.gid = Gid::FromIpv4({})}, UdpSocket::Use::kSending);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one.value().port(), 0);
  EXPECT_NE(one.value().port(), kRocePort);
  EXPECT_NE(one.value().port(), other.value().port());
}

TEST_F(OwnSocketsTest, WhatTheNetworkSaysIsToldByTheProcessThatSent) {
  const auto port = NewConnectedPort();
  ASSERT_TRUE(Send(*port, {.source = kNear, .destination = kFar}));
  PacketPort::Notice notice;
  for (int i = 0; i < kTimeoutMs && notice.sentence.empty(); ++i) {
    port->ServeLink();
    notice = port->TakeNotice();
    usleep(1'000);
  }
  EXPECT_EQ(notice.about, kFar);
  EXPECT_NE(notice.sentence.find("nothing receives RoCEv2 at 10.77.0.2"), std::string::npos)
      << notice.sentence;
}

TEST_F(OwnSocketsTest, ManagementAndMulticastTakeTheRing) {
  const auto port = NewConnectedPort();
  ASSERT_TRUE(Send(*port, {.source = kNear, .destination = kFar, .destination_qpn = kManagement}));
  EXPECT_EQ(CountAtUroced(*port), 1);
  const auto room = port->AcquireTransmit(Route::kWire);
  const Gid group = {{0xff, 0x1e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  const size_t frame_bytes = UdpFrameSpec{.source = kNear6, .destination = group}.Build(room);
  room[0] = room[1] = 0x33;
  port->CommitTransmit(frame_bytes);
  port->Flush();
  EXPECT_EQ(CountAtUroced(*port), 1);
}

TEST_F(OwnSocketsTest, FramesThatTheRingHasNoRoomForHoldUpTheSenderAndAreNotLost) {
  const auto port = NewConnectedPort();
  const UdpFrameSpec management = {
      .source = kNear, .destination = kFar, .destination_qpn = kManagement};
  int sent = 0;
  while (Send(*port, management)) ++sent;
  EXPECT_FALSE(port->BeginSleep()) << "nothing would wake it when there is room";
  EXPECT_FALSE(Send(*port, {.source = kNear, .destination = kFar})) << "it would be ahead of it";
  int taken = CountAtUroced(*port);
  port->ServeLink();
  taken += CountAtUroced(*port);
  EXPECT_EQ(taken, sent);
  EXPECT_TRUE(Send(*port, management));
}

TEST_F(OwnSocketsTest, UrocedThatIsToSendForAllIsLeftTo) {
  const auto port = NewConnectedPort();
  uroced_.reset();
  control::Welcome with_users = OwnSocketsFabric();
  with_users.by_own_sockets = 0;
  uroced_ = std::make_unique<FakeUroced>(fabric_, with_users);
  while (port->attachments() == 1) ServeAll(*port);
  EXPECT_EQ(PrepareUntilAnswered(*port, PathTo(kFar), [&] { ServeAll(*port); }), PathState::kReady);
  ASSERT_TRUE(Send(*port, {.source = kNear, .destination = kFar}));
  EXPECT_EQ(CountAtUroced(*port), 1);
}

}  // namespace
}  // namespace uroce::nic
