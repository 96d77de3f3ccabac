// A port of a fabric whose processes send and receive by UDP sockets of their own, and another host
// at the other end of a veth pair.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
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

const Gid kSecond = Gid::FromIpv4({10, 77, 0, 9});

control::Welcome OwnSocketsFabric() {
  control::Welcome welcome = FakeUroced::WiredFabric();
  welcome.mtu_bytes = kMtuBytes;
  welcome.by_own_sockets = 1;
  welcome.gid_count = 4;
  welcome.gids[1] = kNear;
  welcome.gids[2] = kNear6;
  welcome.gids[3] = kSecond;
  return welcome;
}

class OwnSocketsTest : public FabricPortTest {
 protected:
  OwnSocketsTest() : FabricPortTest(OwnSocketsFabric()) {}

  static void SetUpTestSuite() {
    pair_ = new VethPair(kMtuBytes);
    if (!pair_->problem().empty()) return;
    VethPair::Run("ip link set lo up");
    VethPair::Run("ip address add 10.77.0.9/24 dev near");
  }
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
  }

  static PacketPort::Path PathTo(const Gid& remote) {
    return {.route = Route::kWire, .local = {7}, .remote = {0x11}, .remote_gid = remote};
  }
  // A port with a path to a queue pair of the other host.
  std::unique_ptr<FabricPort> NewConnectedPort(const Gid& remote = kFar) {
    auto port = NewPort();
    EXPECT_EQ(PrepareUntilAnswered(*port, PathTo(remote), [&] { ServeAll(*port); }),
              PathState::kReady);
    return port;
  }
  FakeUroced::Client& ClientOf(const FabricPort& port) { return uroced_->client(BlockOf(port)); }
  // The number of frames that the process sent by its uplink to uroced.
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

  // Sends the port a descriptor, as uroced sends sockets.
  void Give(FabricPort& port, int fd) {
    EXPECT_TRUE(ClientOf(port).channel.Send(control::WireSocket{0}, std::array<int, 1>{fd}));
    ServeAll(port);
  }
  static Qpn QpOf(control::Block block) { return {block * transport::kMaxQps + 7}; }
  static size_t CountDescriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
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

  static bool Send(PacketPort& port, const UdpFrameSpec& spec) {
    const auto room = port.AcquireTransmit(Route::kWire);
    if (room.empty()) return false;
    port.CommitTransmit(spec.Build(room));
    port.Flush();
    return true;
  }
  // The next frame, parsed; PSN 0 if none comes.
  static transport::Packet Receive(PacketPort& port) {
    transport::Packet packet;
    while (true) {
      port.BeginReceiveBurst();
      const auto frame = ReceiveFrame(&port);
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
      const auto packet = Receive(*far);  // Receive checks its ICRC
      EXPECT_EQ(packet.flow.source, own);
      EXPECT_EQ(packet.psn.value(), psn);
    }
  }
  EXPECT_EQ(CountAtUroced(*port), 0);
  EXPECT_EQ(port->counters().drops.total(), 0u);
}

TEST_F(OwnSocketsTest, AddressThatComesIsSentFrom) {
  const Gid added = Gid::FromIpv4({10, 77, 0, 8});
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  VethPair::Run("ip address add 10.77.0.8/24 dev near");
  control::Addresses addresses{};
  std::copy_n(like_.gids.begin(), like_.gid_count, addresses.gids.begin());
  addresses.gids[like_.gid_count] = added;
  ASSERT_TRUE(ClientOf(*port).channel.Send(addresses));
  ServeAll(*port);
  ASSERT_TRUE(Send(*port, {.source = added, .destination = kFar, .psn = 3}));
  ASSERT_TRUE(Send(*port, {.source = kNear, .destination = kFar, .psn = 4}));
  EXPECT_EQ(Receive(*far).flow.source, added);
  EXPECT_EQ(Receive(*far).flow.source, kNear);
  VethPair::Run("ip address del 10.77.0.8/24 dev near");
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

// Two processes of a host never send from the same UDP port, so an ICMP error reaches the process
// that sent the frame.
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

TEST_F(OwnSocketsTest, NetworkErrorIsReportedByTheSendingProcess) {
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
  const Gid group = {{0xff, 0x1e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  ASSERT_TRUE(Send(*port, {.source = kNear6, .destination = group}));
  EXPECT_EQ(CountAtUroced(*port), 1);
}

TEST_F(OwnSocketsTest, FrameThatIsNoPacketIsDroppedAndCounted) {
  const auto port = NewConnectedPort();
  std::vector<uint8_t> frame = UdpFrameSpec{.source = kNear, .destination = kFar}.Build();
  frame.resize(50);
  const uint64_t before = port->counters().receive_malformed;
  EXPECT_TRUE(port->SendEthernet(Route::kWire, frame));
  port->Flush();
  EXPECT_EQ(port->counters().receive_malformed, before + 1);
  EXPECT_EQ(CountAtUroced(*port), 0);
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

// A socket such as uroced gives to a process.
UdpSocket OpenReceiver(const Gid& wildcard) {
  auto socket = UdpSocket::Open({.gid = wildcard}, UdpSocket::Use::kMemberOfGroup);
  EXPECT_TRUE(socket.ok());
  return std::move(socket).value();
}

TEST_F(OwnSocketsTest, FramesFromAnotherHostComeByTheProcessesOwnSockets) {
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  Give(*port, OpenReceiver({}).fd());
  for (const auto& [own, other] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    for (uint32_t psn = 1; psn <= 5; ++psn) {
      ASSERT_TRUE(Send(*far, {.source = other,
                              .destination = own,
                              .psn = psn,
                              .destination_qpn = QpOf(BlockOf(*port))}));
      const auto packet = Receive(*port);
      EXPECT_EQ(packet.flow.source, other);
      EXPECT_EQ(packet.psn.value(), psn);
    }
  }
  EXPECT_EQ(CountAtUroced(*port), 0);
}

// The sleeper wakes, and its next pass looks at a wire that was quiet for long.
TEST_F(OwnSocketsTest, FrameWakesASleeperThatWasIdleForLong) {
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  for (int pass = 0; pass < 20'000; ++pass) {
    port->BeginReceiveBurst();
    ASSERT_TRUE(port->Receive().bytes.empty());
  }
  ASSERT_TRUE(port->BeginSleep());
  const Qpn own_qpn = QpOf(BlockOf(*port));
  ASSERT_TRUE(Send(*far, {.source = kFar, .destination = kNear, .destination_qpn = own_qpn}));
  pollfd poller = {.fd = port->wait_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&poller, 1, kTimeoutMs), 1);
  port->EndSleep();
  port->BeginReceiveBurst();
  EXPECT_FALSE(port->Receive().bytes.empty());
}

// The kernel steers a frame for another process to us when the order of the sockets has just
// changed, or when it is in one message with a frame for us.
TEST_F(OwnSocketsTest, FrameForAnotherProcessIsPassedOnByUroced) {
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  const Qpn own_qpn = QpOf(BlockOf(*port));
  const Qpn other_qpn = QpOf(BlockOf(*port) + 1);
  const UdpFrameSpec spec = {.source = kFar, .destination = kNear};
  // All frames leave by one call, and may arrive as one message.
  for (uint32_t psn = 1; psn <= 9; ++psn) {
    UdpFrameSpec frame = spec;
    frame.psn = psn;
    frame.destination_qpn = psn % 3 == 0 ? own_qpn : psn % 3 == 1 ? other_qpn : kManagement;
    far->CommitTransmit(frame.Build(far->AcquireTransmit(Route::kWire)));
  }
  far->Flush();
  for (const uint32_t psn : {3u, 6u, 9u}) EXPECT_EQ(Receive(*port).psn.value(), psn);
  port->Flush();
  RingLink& uplink = *ClientOf(*port).uplink;
  for (const uint32_t psn : {1u, 2u, 4u, 5u, 7u, 8u}) {
    transport::Packet packet;
    ASSERT_EQ(ParseFrame(uplink.Receive(), packet), DropReason::kNone) << psn;
    EXPECT_EQ(packet.psn.value(), psn);
    EXPECT_EQ(packet.destination_qpn, psn % 3 == 1 ? other_qpn : kManagement);
    EXPECT_EQ(packet.flow.source, kFar);
    uplink.Release();
  }
  EXPECT_EQ(CountAtUroced(*port), 0);
}

TEST_F(OwnSocketsTest, FrameInTheNameOfThisHostIsDropped) {
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  const UniqueFd forger(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress own = SocketAddress::Make(kSecond, 0, 0);
  ASSERT_EQ(bind(forger.get(), own.get(), own.bytes), 0);
  const SocketAddress to = SocketAddress::Make(kNear, kRocePort, 0);
  const std::vector<uint8_t> bytes(64);
  EXPECT_GT(sendto(forger.get(), bytes.data(), bytes.size(), 0, to.get(), to.bytes), 0);
  port->BeginReceiveBurst();
  EXPECT_TRUE(port->Receive().bytes.empty());
  EXPECT_EQ(port->counters().drops[PortDrop::kOwnAddress], 1u);
}

TEST_F(OwnSocketsTest, SocketDropsAreReportedToTheDaemon) {
  const auto far = OpenFar();
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  const UniqueFd stranger(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress to = SocketAddress::Make(kNear, kRocePort, 0);
  EXPECT_EQ(sendto(stranger.get(), "", 1, 0, to.get(), to.bytes), 1);
  for (int i = 0; i < kTimeoutMs && ClientOf(*port).drops.total() == 0; ++i) {
    port->BeginReceiveBurst();
    EXPECT_TRUE(port->Receive().bytes.empty());
    ServeAll(*port);
    usleep(1'000);
  }
  EXPECT_EQ(ClientOf(*port).drops.total(), 1u);
}

// Descriptors from uroced are checked: another program could pose as uroced.
TEST_F(OwnSocketsTest, NonRoceDescriptorIsClosed) {
  const auto port = NewConnectedPort();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd read_end(ends[0]);
  Give(*port, UniqueFd(ends[1]).get());
  char byte;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 0) << "the other end is still open";

  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd own_end(ends[0]);
  Give(*port, UniqueFd(ends[1]).get());
  EXPECT_EQ(send(own_end.get(), "", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, ECONNREFUSED);

  const size_t before = CountDescriptors();
  const auto other_port = UdpSocket::Open({.gid = Gid::FromIpv4({})}, UdpSocket::Use::kSending);
  Give(*port, other_port.value().fd());
  Give(*port, UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)).get());
  EXPECT_EQ(CountDescriptors(), before + 1) << "only our own";

  // The port still takes sockets, but only one for each IP version.
  for (int i = 0; i < 3; ++i) Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  EXPECT_EQ(CountDescriptors(), before + 3);
}

TEST_F(OwnSocketsTest, SocketsAreClosedForTheUrocedThatComesNext) {
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  uroced_.reset();
  port->ServeLink();
  EXPECT_FALSE(UdpSocket::Open({.gid = Gid::FromIpv4({})}).ok()) << "it receives without uroced";
  uroced_ = std::make_unique<FakeUroced>(fabric_, OwnSocketsFabric());
  while (port->attachments() == 1) ServeAll(*port);
  EXPECT_TRUE(UdpSocket::Open({.gid = Gid::FromIpv4({})}).ok());
  const auto far = OpenFar();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  const Qpn own_qpn = QpOf(BlockOf(*port));
  ASSERT_TRUE(
      Send(*far, {.source = kFar, .destination = kNear, .psn = 8, .destination_qpn = own_qpn}));
  EXPECT_EQ(Receive(*port).psn.value(), 8u);
}

TEST_F(OwnSocketsTest, ForkedChildLetsGoOfTheSockets) {
  const auto port = NewConnectedPort();
  Give(*port, OpenReceiver(Gid::FromIpv4({})).fd());
  const pid_t child = fork();
  if (child == 0) {
    port->AbandonAfterFork();
    pause();
  }
  port->AbandonAfterFork();  // closes the parent's sockets, too
  bool is_free = false;
  for (int i = 0; i < kTimeoutMs && !is_free; ++i) {
    is_free = UdpSocket::Open({.gid = Gid::FromIpv4({})}).ok();
    usleep(1'000);
  }
  EXPECT_TRUE(is_free);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(OwnSocketsTest, FramesGoThroughADaemonThatSharesNoSockets) {
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
