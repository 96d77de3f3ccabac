// A UdpUplink on one end of a veth pair, and a UdpPort on the other.
#include "dpdk_nic/port/udp/udp_uplink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;
using transport::Route;

constexpr int kTimeoutMs = 60'000;
constexpr uint32_t kMtuBytes = 4'200;
constexpr uint32_t kPathMtuBytes = 1'500;

const Gid kNowhere = Gid::FromIpv4({198, 51, 100, 1});

std::unique_ptr<UdpUplink> Create(std::vector<Gid> addresses = {}) {
  auto uplink = UdpUplink::Create({.addresses = std::move(addresses), .mtu_bytes = kMtuBytes});
  EXPECT_TRUE(uplink.ok()) << (uplink.ok() ? "" : uplink.error());
  return uplink.ok() ? std::move(uplink).value() : nullptr;
}

PacketPort::Path PathTo(const Gid& remote) {
  PacketPort::Path path;
  path.remote_gid = remote;
  return path;
}

PacketPort::PathState Prepare(UdpUplink* uplink, const Gid& remote) {
  return uplink->PreparePath(PathTo(remote));
}

// Whether the kernel has a socket on port 4791 in this namespace.
bool Listens() {
  for (const char* table : {"/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"}) {
    std::ifstream sockets(table);
    for (std::string line; std::getline(sockets, line);) {
      if (line.find(":12B7 ") != std::string::npos) return true;
    }
  }
  return false;
}

// The next frame, parsed.
transport::Packet Receive(PacketPort* port) {
  transport::Packet packet;
  while (true) {
    const auto frame = ReceiveFrame(port);
    if (!frame.empty()) {
      EXPECT_EQ(ParseFrame(frame, packet), DropReason::kNone);
      port->ReleaseReceived();
      return packet;
    }
    if (!WaitFor(*port)) {
      ADD_FAILURE() << "nothing came";
      return packet;
    }
  }
}

class UdpUplinkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pair_ = new VethPair(kPathMtuBytes);
    if (pair_->problem().empty()) VethPair::Run("ip link set lo up");
  }
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
  }

  // Opens a port of the other host.
  static std::unique_ptr<UdpPort> OpenFar() {
    const UniqueFd near(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    const UniqueFd far(open(pair_->far_namespace().c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(setns(far.get(), CLONE_NEWNET), 0);
    auto port = UdpPort::Open({kFar, kFar6}, 0);
    EXPECT_EQ(setns(near.get(), CLONE_NEWNET), 0);
    EXPECT_TRUE(port.ok()) << (port.ok() ? "" : port.error());
    return port.ok() ? std::move(port).value() : nullptr;
  }

  static const VethPair* pair_;
};

const VethPair* UdpUplinkTest::pair_ = nullptr;

TEST_F(UdpUplinkTest, HasTheAddressesOfTheHostAndListensNowhere) {
  const auto uplink = Create();
  const std::vector<Gid> gids = uplink->Gids();
  ASSERT_GE(gids.size(), 3u);
  EXPECT_TRUE(IsLinkLocal(gids[0]));
  EXPECT_EQ(gids[1], kNear);
  EXPECT_EQ(gids[2], kNear6);
  EXPECT_EQ(uplink->mtu(), kMtuBytes);
  EXPECT_TRUE(uplink->active());
  EXPECT_TRUE(uplink->Receive().bytes.empty());
  EXPECT_TRUE(uplink->BeginSleep());
  uplink->ServeLink();
  EXPECT_FALSE(uplink->is_open());
  EXPECT_FALSE(Listens());
}

TEST_F(UdpUplinkTest, OpensWhenAHostIsNamedAndReachesIt) {
  const auto uplink = Create();
  const auto far = OpenFar();
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kReady);
  EXPECT_TRUE(Listens());
  for (const auto& [own, other] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    Send(uplink.get(), {{.source = own, .destination = other, .psn = 5, .traffic_class = 2}});
    auto packet = Receive(far.get());
    EXPECT_EQ(packet.flow.source, own);
    EXPECT_EQ(packet.psn.value(), 5u);
    EXPECT_EQ(packet.flow.traffic_class, 2);
    Send(far.get(), {{.source = other, .destination = own, .psn = 6}});
    packet = Receive(uplink.get());
    EXPECT_EQ(packet.flow.source, other);
    EXPECT_EQ(packet.flow.destination, own);
    EXPECT_EQ(packet.psn.value(), 6u);
  }
  EXPECT_EQ(uplink->TakeNotice().sentence, "");
  EXPECT_EQ(uplink->counters().drops.total(), 0u);
}

// One socket serves several addresses; each frame leaves from the address that it names.
TEST_F(UdpUplinkTest, FramesLeaveFromTheAddressThatTheyName) {
  const Gid second = Gid::FromIpv4({10, 77, 0, 9});
  VethPair::Run("ip address add 10.77.0.9/24 dev near");
  const auto uplink = Create();
  const auto far = OpenFar();
  for (const Gid& own : {second, kNear, second}) {
    Send(uplink.get(), {{.source = own, .destination = kFar}});
    EXPECT_EQ(Receive(far.get()).flow.source, own);
  }
  VethPair::Run("ip address del 10.77.0.9/24 dev near");
}

// A process that named the host to an earlier uroced goes on sending.
TEST_F(UdpUplinkTest, FrameToAnotherHostOpensTheUplinkAndIsSent) {
  const auto uplink = Create();
  const auto far = OpenFar();
  Send(uplink.get(), {{.source = kNear, .destination = kFar, .psn = 7}});
  EXPECT_TRUE(uplink->is_open());
  EXPECT_EQ(Receive(far.get()).psn.value(), 7u);
}

TEST_F(UdpUplinkTest, TakenPortIsReportedAndRetried) {
  const auto uplink = Create();
  UniqueFd owner(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::Make(Gid::FromIpv4({}), 4'791, 0);
  ASSERT_EQ(bind(owner.get(), any.get(), any.bytes), 0);
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kUnreachable);
  const auto notice = uplink->TakeNotice();
  EXPECT_EQ(notice.about, kFar);
  EXPECT_NE(notice.sentence.find("UDP port 4791 of this host is taken"), std::string::npos);
  Send(uplink.get(), {{.source = kNear, .destination = kFar}});
  EXPECT_EQ(uplink->counters().drops[PortDrop::kNotSent], 1u);
  EXPECT_EQ(uplink->TakeNotice().sentence, "") << "it was said a moment ago";
  owner.reset();
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kReady);
}

TEST_F(UdpUplinkTest, HostWithoutRouteIsReported) {
  const auto uplink = Create();
  EXPECT_EQ(Prepare(uplink.get(), kNowhere), PacketPort::PathState::kUnreachable);
  const auto notice = uplink->TakeNotice();
  EXPECT_EQ(notice.about, kNowhere);
  EXPECT_EQ(notice.sentence,
            "packets to 198.51.100.1 cannot be sent (Network is unreachable): see 'ip route get "
            "198.51.100.1'");
}

// Which address the packets are from is up to the queue pair.
TEST_F(UdpUplinkTest, RouteOfOneOfTheAddressesIsEnough) {
  VethPair::Run("ip address add 10.77.0.9/24 dev near");
  VethPair::Run("ip rule add from 10.77.0.9 lookup 100");
  VethPair::Run("ip route add default via 10.77.0.2 mtu 1400 table 100");
  const auto uplink = Create();
  EXPECT_EQ(Prepare(uplink.get(), kNowhere), PacketPort::PathState::kReady);
  EXPECT_EQ(uplink->PathMtu(PathTo(kNowhere)), 1'400u);
  VethPair::Run("ip rule del from 10.77.0.9 lookup 100");
  EXPECT_EQ(Prepare(uplink.get(), kNowhere), PacketPort::PathState::kUnreachable);
  VethPair::Run("ip address del 10.77.0.9/24 dev near");
}

TEST_F(UdpUplinkTest, PathMtuIsThatOfTheRoute) {
  const auto uplink = Create();
  EXPECT_EQ(uplink->PathMtu(PathTo(kFar)), kPathMtuBytes);
  VethPair::Run("ip route add 203.0.113.0/24 dev near mtu lock 1300");
  EXPECT_EQ(uplink->PathMtu(PathTo(Gid::FromIpv4({203, 0, 113, 1}))), 1'300u);
  VethPair::Run("ip route del 203.0.113.0/24 dev near");
  EXPECT_EQ(uplink->PathMtu(PathTo(kNowhere)), kMtuBytes) << "nothing is known of it";
  // The loopback interface has a larger MTU than the fabric.
  EXPECT_EQ(uplink->PathMtu(PathTo(kNear)), kMtuBytes);
}

TEST_F(UdpUplinkTest, ChosenAddressIsTheOnlyOne) {
  const auto uplink = Create({kNear});
  ASSERT_EQ(uplink->Gids().size(), 2u);
  EXPECT_EQ(uplink->Gids()[1], kNear);
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kReady);
  // Another address of the host is free for another owner.
  const auto other = UdpPort::Open({kNear6}, 0);
  EXPECT_TRUE(other.ok());
  const auto wrong = UdpUplink::Create({.addresses = {kNowhere}, .mtu_bytes = kMtuBytes});
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().find("198.51.100.1 is not an address of this host"), std::string::npos);
}

std::unique_ptr<UdpUplink> CreateShared() {
  auto uplink =
      UdpUplink::Create({.addresses = {}, .mtu_bytes = kMtuBytes, .shares_sockets = true});
  return uplink.ok() ? std::move(uplink).value() : nullptr;
}

TEST_F(UdpUplinkTest, ProcessesGetSocketsOnceTheUplinkIsOpen) {
  const auto uplink = CreateShared();
  EXPECT_FALSE(uplink->has_sockets());
  EXPECT_TRUE(uplink->Share(7).empty());
  ASSERT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kReady);
  EXPECT_TRUE(uplink->has_sockets());
  const std::vector<UniqueFd> sockets = uplink->Share(7);
  ASSERT_EQ(sockets.size(), 2u);
  const auto far = OpenFar();
  for (const auto& [own, other] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    const int fd = sockets[own == kNear ? 0 : 1].get();
    const UdpFrameSpec spec = {.source = other, .destination = own};
    UdpFrameSpec to_process = spec;
    to_process.destination_qpn = {7 * transport::kMaxQps};
    Send(far.get(), {to_process});
    pollfd poller = {.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&poller, 1, kTimeoutMs), 1);
    Send(far.get(), {spec});
    EXPECT_EQ(Receive(uplink.get()).flow.source, other) << "it is for no process with a socket";
    EXPECT_TRUE(uplink->Receive().bytes.empty());
    Send(uplink.get(), {{.source = own, .destination = other, .psn = 3}});
    EXPECT_EQ(Receive(far.get()).psn.value(), 3u);
  }
}

// A process that outlives its uroced keeps the sockets that the uroced gave it.
TEST_F(UdpUplinkTest, PortIsWaitedForWhileProcessesHaveSocketsOfTheUrocedBefore) {
  auto before = CreateShared();
  ASSERT_EQ(Prepare(before.get(), kFar), PacketPort::PathState::kReady);
  std::vector<UniqueFd> sockets = before->Share(7);
  before.reset();
  EXPECT_TRUE(Listens());
  const auto uplink = CreateShared();
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kPending);
  EXPECT_TRUE(uplink->keeps_frames()) << "it has to be served again soon";
  EXPECT_EQ(uplink->TakeNotice().sentence, "");
  sockets.clear();
  for (int i = 0; i < kTimeoutMs && !uplink->is_open(); ++i) {
    usleep(1'000);
    uplink->ServeLink();
  }
  EXPECT_TRUE(uplink->is_open());
  EXPECT_FALSE(uplink->keeps_frames());
  EXPECT_EQ(uplink->Share(7).size(), 2u);
  EXPECT_EQ(uplink->TakeNotice().sentence, "");
}

TEST_F(UdpUplinkTest, PortThatStaysTakenIsReportedForEveryHost) {
  const auto uplink = CreateShared();
  UniqueFd owner(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::Make(Gid::FromIpv4({}), 4'791, 0);
  ASSERT_EQ(bind(owner.get(), any.get(), any.bytes), 0);
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kPending);
  PacketPort::Notice notice;
  for (int i = 0; i < kTimeoutMs && notice.sentence.empty(); ++i) {
    usleep(1'000);
    uplink->ServeLink();
    notice = uplink->TakeNotice();
  }
  EXPECT_TRUE(notice.about.IsZero());
  EXPECT_NE(notice.sentence.find("UDP port 4791 of this host is taken"), std::string::npos);
  EXPECT_FALSE(uplink->keeps_frames()) << "it may sleep now";
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kUnreachable);
  EXPECT_EQ(uplink->TakeNotice().about, kFar);
  owner.reset();
  EXPECT_EQ(Prepare(uplink.get(), kFar), PacketPort::PathState::kReady);
}

// A server, or a receiver of datagrams, may have all its peers on this host.
TEST_F(UdpUplinkTest, TakenPortIsNotReportedWhileNothingHasToLeave) {
  const Gid group = Gid::FromIpv4({239, 1, 2, 3});
  const auto uplink = CreateShared();
  UniqueFd owner(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::Make(Gid::FromIpv4({}), 4'791, 0);
  ASSERT_EQ(bind(owner.get(), any.get(), any.bytes), 0);
  while (Prepare(uplink.get(), Gid{}) == PacketPort::PathState::kPending) {
    usleep(1'000);
    uplink->ServeLink();
  }
  EXPECT_EQ(Prepare(uplink.get(), group), PacketPort::PathState::kUnreachable);
  EXPECT_EQ(uplink->JoinGroup(group), PacketPort::PathState::kUnreachable);
  EXPECT_EQ(uplink->TakeNotice().sentence, "");
  // A frame to the group has to leave.
  PacketPort::Notice notice;
  for (int i = 0; i < kTimeoutMs && notice.sentence.empty(); ++i) {
    usleep(1'000);
    Send(uplink.get(), {{.source = kNear, .destination = group}});
    notice = uplink->TakeNotice();
  }
  EXPECT_EQ(notice.about, group);
}

TEST_F(UdpUplinkTest, HostWithoutANetworkHasNone) {
  VethPair::Run("ip link set near down");
  EXPECT_EQ(Create(), nullptr);
  VethPair::Run("ip link set near up");
  VethPair::AddAddress("fd77::1", "near");
}

}  // namespace
}  // namespace uroce::nic
