// UdpPorts over the kernel's loopback interface, in a network namespace of the test's own.
#include "dpdk_nic/port/udp/udp_port.h"

#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;

const Gid kOurLoopback = Gid::FromIpv4({127, 0, 0, 2});
const Gid kPeerLoopback = Gid::FromIpv4({127, 0, 0, 3});
const Gid kOurLoopback6 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const Gid kPeerLoopback6 = {{0xfd, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}};

std::unique_ptr<UdpPort> Open(const Gid& address, uint32_t mtu_bytes = 0) {
  auto port = UdpPort::Open({address}, mtu_bytes);
  EXPECT_TRUE(port.ok()) << (port.ok() ? "" : port.error());
  return port.ok() ? std::move(port).value() : nullptr;
}

std::string ErrorOf(const std::vector<Gid>& addresses, uint32_t mtu_bytes = 0) {
  const auto port = UdpPort::Open(addresses, mtu_bytes);
  return port.ok() ? "" : port.error();
}

class UdpPortTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pair_ = new VethPair(1'500);
    problem_ = &pair_->problem();
    if (!problem_->empty()) return;
    VethPair::Run("ip link set lo up");
    VethPair::AddAddress("fd78::3", "lo");
  }
  void SetUp() override {
    if (!problem_->empty()) GTEST_SKIP() << *problem_;
  }

  // The next `count` frames.
  static std::vector<std::vector<uint8_t>> Receive(UdpPort* port, size_t count) {
    std::vector<std::vector<uint8_t>> frames;
    while (frames.size() < count) {
      const auto frame = ReceiveFrame(port);
      if (!frame.empty()) {
        frames.emplace_back(frame.begin(), frame.end());
        port->ReleaseReceived();
      } else if (!WaitFor(*port)) {
        ADD_FAILURE() << "only " << frames.size() << " of " << count;
        break;
      }
    }
    return frames;
  }

  static const VethPair* pair_;
  static const std::string* problem_;
};

const VethPair* UdpPortTest::pair_;
const std::string* UdpPortTest::problem_ = nullptr;

// Expect: every frame in order, with right checksums, whether long, of equal length or shorter.
TEST_F(UdpPortTest, FramesArriveAsTheyWereSent) {
  for (const auto& [near, far] :
       {std::pair(kOurLoopback, kPeerLoopback), std::pair(kOurLoopback6, kPeerLoopback6)}) {
    const auto sender = Open(near);
    const auto receiver = Open(far);
    std::vector<UdpFrameSpec> specs;
    for (uint32_t psn = 0; psn < 60; ++psn) {
      const uint32_t bytes = psn % 20 == 19 ? 10 : psn % 20 == 0 ? 4'096 : 1'024;
      specs.push_back({.source = near, .destination = far, .psn = psn, .payload_bytes = bytes});
    }
    Send(sender.get(), specs);
    const auto frames = Receive(receiver.get(), specs.size());
    ASSERT_EQ(frames.size(), specs.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      transport::Packet packet;
      ASSERT_EQ(ParseFrame(frames[i], packet), DropReason::kNone) << i;
      EXPECT_EQ(packet.psn.value(), i);
      EXPECT_EQ(packet.payload.size(), specs[i].payload_bytes);
      EXPECT_EQ(packet.flow.source, near);
      EXPECT_EQ(packet.flow.destination, far);
      EXPECT_EQ(packet.flow.source_port, 4791);
    }
    EXPECT_EQ(sender->counters().transmit_dropped_no_link, 0u);
    EXPECT_EQ(receiver->counters().receive_malformed, 0u);
  }
}

TEST_F(UdpPortTest, CongestionMarksGoBothWays) {
  for (const auto& [near, far] :
       {std::pair(kOurLoopback, kPeerLoopback), std::pair(kOurLoopback6, kPeerLoopback6)}) {
    const auto sender = Open(near);
    const auto receiver = Open(far);
    std::vector<UdpFrameSpec> specs;
    for (uint8_t mark = 0; mark < 4; ++mark) {
      const auto traffic_class = static_cast<uint8_t>(0x68 | mark);
      specs.push_back({.source = near, .destination = far, .traffic_class = traffic_class});
    }
    Send(sender.get(), specs);
    const auto frames = Receive(receiver.get(), specs.size());
    ASSERT_EQ(frames.size(), specs.size());
    for (size_t i = 0; i < frames.size(); ++i) {
      transport::Packet packet;
      ASSERT_EQ(ParseFrame(frames[i], packet), DropReason::kNone);
      EXPECT_EQ(packet.flow.traffic_class, specs[i].traffic_class);
    }
  }
}

// A foreign socket sends. It is unconnected, so its datagrams carry identification 0, like all
// single datagrams.
TEST_F(UdpPortTest, NonRoceDatagramIsDroppedAndCounted) {
  const auto receiver = Open(kPeerLoopback);
  const UniqueFd other_socket(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress from = SocketAddress::Make(kOurLoopback, 0, 0);
  const SocketAddress own = SocketAddress::Make(kPeerLoopback, 0, 0);
  const SocketAddress to = SocketAddress::Make(kPeerLoopback, 4'791, 0);
  const std::array<uint8_t, 9'000> zeros{};
  const auto send = [&](size_t bytes) {
    return sendto(other_socket.get(), zeros.data(), bytes, 0, to.get(), to.bytes);
  };
  ASSERT_EQ(bind(other_socket.get(), from.get(), from.bytes), 0);
  for (const size_t bytes : {0u, 3u, 15u, 9'000u})
    ASSERT_EQ(send(bytes), static_cast<ssize_t>(bytes));
  const UniqueFd forger(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(forger.get(), own.get(), own.bytes), 0);
  ASSERT_EQ(sendto(forger.get(), zeros.data(), 64, 0, to.get(), to.bytes), 64);
  ASSERT_EQ(send(64), 64);  // long enough, so the transport judges it

  const auto frames = Receive(receiver.get(), 1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(JudgeFrame(frames[0]), DropReason::kBadIcrc);
  const PortDrops drops = receiver->counters().drops;
  EXPECT_EQ(drops[PortDrop::kTooShort], 2u);
  EXPECT_EQ(drops[PortDrop::kTooLong], 1u);
  EXPECT_EQ(drops[PortDrop::kOwnAddress], 1u);
  EXPECT_EQ(receiver->counters().receive_malformed, 4u);
}

// rdma_rxe and NICs send no UDP checksum.
TEST_F(UdpPortTest, DatagramsWithoutUdpChecksumAreTaken) {
  for (const auto& [near, far] :
       {std::pair(kOurLoopback, kPeerLoopback), std::pair(kOurLoopback6, kPeerLoopback6)}) {
    const auto receiver = Open(far);
    const int family = far.IsIpv4Mapped() ? AF_INET : AF_INET6;
    const UniqueFd peer(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ASSERT_EQ(setsockopt(peer.get(), SOL_SOCKET, SO_NO_CHECK, &on, sizeof on), 0);
    if (family == AF_INET6) {
      ASSERT_EQ(setsockopt(peer.get(), SOL_UDP, UDP_NO_CHECK6_TX, &on, sizeof on), 0);
    }
    const SocketAddress from = SocketAddress::Make(near, 0, 0);
    const SocketAddress to = SocketAddress::Make(far, 4'791, 0);
    const std::array<uint8_t, 64> zeros{};
    ASSERT_EQ(bind(peer.get(), from.get(), from.bytes), 0);
    ASSERT_EQ(sendto(peer.get(), zeros.data(), zeros.size(), 0, to.get(), to.bytes), 64);
    EXPECT_EQ(Receive(receiver.get(), 1).size(), 1u);
  }
}

TEST_F(UdpPortTest, PacketHasNoHeadersAndItsIcrcIsChecked) {
  for (const auto& [near, far] :
       {std::pair(kOurLoopback, kPeerLoopback), std::pair(kOurLoopback6, kPeerLoopback6)}) {
    const auto sender = Open(near);
    const auto receiver = Open(far);
    const UdpFrameSpec spec = {.source = near, .destination = far, .traffic_class = 2};
    Send(sender.get(), {spec});
    ASSERT_TRUE(WaitFor(*receiver));
    const auto received = receiver->Receive();
    ASSERT_NE(received.packet, nullptr);
    const transport::ReceivedPacket& packet = *received.packet;
    EXPECT_TRUE(packet.is_icrc_right);
    EXPECT_EQ(packet.flow->source, near);
    EXPECT_EQ(packet.flow->destination, far);
    EXPECT_EQ(packet.flow->traffic_class, 2);
    EXPECT_EQ(packet.flow->source_port, 4'791);
    EXPECT_EQ(packet.frame_bytes, spec.Build().size());
    EXPECT_EQ(packet.bytes.size(), received.bytes.size() - transport::kIcrcBytes);
    EXPECT_EQ(received.bytes[0], 0x04) << "the BTH begins with the opcode";
  }
}

TEST_F(UdpPortTest, FramesThatFindNoRoomAreCounted) {
  const auto sender = Open(kOurLoopback);
  const auto receiver = Open(kPeerLoopback);
  const std::vector<UdpFrameSpec> burst(
      60, {.source = kOurLoopback, .destination = kPeerLoopback, .payload_bytes = 4'096});
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (receiver->counters().drops[PortDrop::kOverflow] == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    Send(sender.get(), burst);
  }
  EXPECT_EQ(receiver->counters().receive_malformed, 0u);
  EXPECT_EQ(sender->counters().drops.total(), 0u);
}

TEST(UdpSocketTest, WantOfRoomIsExplainedWhereTheHostCanGrantMore) {
  EXPECT_EQ(ExplainOverflow(kPeerLoopback, 212'992),
            "frames to 127.0.0.3 are lost for want of room in the socket's receive buffer, which "
            "has 212992 bytes: allow more with 'sysctl -w net.core.rmem_max=4194304'");
  EXPECT_EQ(ExplainOverflow(kPeerLoopback, UdpSocket::kBufferBytes), "");
}

TEST_F(UdpPortTest, PeerWithoutListenerIsReportedAtOnceAndOnlyOnce) {
  const auto sender = Open(kOurLoopback);
  const UdpFrameSpec spec = {.source = kOurLoopback, .destination = kPeerLoopback};
  Send(sender.get(), {spec});
  ASSERT_TRUE(WaitFor(*sender)) << "a sleeper has to wake up for it";
  sender->ServeLink();
  EXPECT_EQ(sender->TakeNotice().sentence,
            "nothing receives RoCEv2 at 127.0.0.3 (ICMP port unreachable): start the peer there "
            "with 'uroce run'");
  Send(sender.get(), {spec, spec});
  sender->ServeLink();
  EXPECT_EQ(sender->TakeNotice().sentence, "");
  EXPECT_EQ(sender->counters().transmit_dropped_no_link, 0u);
  // No later frame is lost because of it.
  const auto receiver = Open(kPeerLoopback);
  Send(sender.get(), {spec, spec, spec});
  EXPECT_EQ(Receive(receiver.get(), 3).size(), 3u);
}

TEST_F(UdpPortTest, UnroutableFrameIsDroppedAndReported) {
  const auto sender = Open(kNear);
  Send(sender.get(), {{.source = kNear, .destination = Gid::FromIpv4({192, 0, 2, 1})}});
  EXPECT_EQ(sender->counters().transmit_dropped_no_link, 1u);
  EXPECT_EQ(sender->TakeNotice().sentence,
            "packets to 192.0.2.1 cannot be sent (Network is unreachable): see 'ip route get "
            "192.0.2.1'");
}

// Linux gives EHOSTUNREACH ("No route to host") for both.
TEST_F(UdpPortTest, WhatHappenedOnTheWayIsReported) {
  VethPair::Run("ip route add 192.168.50.0/24 via 10.77.0.2");
  pair_->RunFar("sysctl -q -w net.ipv4.ip_forward=1");
  pair_->RunFar("ip route add prohibit 192.168.50.6");
  pair_->RunFar("ip link add behind type bridge");
  pair_->RunFar("ip address add 192.168.50.1/24 dev behind");
  pair_->RunFar("ip link set behind up");
  const auto sender = Open(kNear);
  const auto notice_after = [&](uint8_t last_octet, uint8_t hop_limit) {
    Send(sender.get(), {{.source = kNear,
                         .destination = Gid::FromIpv4({192, 168, 50, last_octet}),
                         .hop_limit = hop_limit}});
    EXPECT_TRUE(WaitFor(*sender));
    sender->ServeLink();
    return sender->TakeNotice().sentence;
  };
  EXPECT_EQ(notice_after(5, 1),
            "packets to 192.168.50.5 were dropped on the way, as their hop limit had run out (ICMP "
            "time exceeded, from 10.77.0.2): give the address handle a larger grh.hop_limit");
  EXPECT_EQ(notice_after(6, 64),
            "a firewall on the way to 192.168.50.6 refuses packets (ICMP administratively "
            "prohibited, from 10.77.0.2): allow UDP port 4791 there");
}

TEST_F(UdpPortTest, FrameLongerThanThePathMtuIsDroppedAndReported) {
  const auto sender = Open(kNear);
  const Gid far = Gid::FromIpv4({10, 77, 0, 2});
  const UdpFrameSpec spec = {.source = kNear, .destination = far, .payload_bytes = 2'048};
  Send(sender.get(), {spec, spec});
  EXPECT_EQ(sender->counters().transmit_dropped_no_link, 2u);
  EXPECT_NE(sender->TakeNotice().sentence.find("choose a smaller MTU with --mtu"),
            std::string::npos);
}

TEST_F(UdpPortTest, FrameOfAnotherHostIsNotSent) {
  const auto sender = Open(kOurLoopback);
  Send(sender.get(), {{.source = kPeerLoopback, .destination = kOurLoopback}});
  EXPECT_EQ(sender->counters().transmit_dropped_no_link, 1u);
}

TEST_F(UdpPortTest, SleeperWakesForAFrame) {
  const auto sender = Open(kOurLoopback);
  const auto receiver = Open(kPeerLoopback);
  EXPECT_TRUE(receiver->BeginSleep());
  const UdpFrameSpec spec = {.source = kOurLoopback, .destination = kPeerLoopback};
  Send(sender.get(), {spec, spec});
  EXPECT_TRUE(WaitFor(*receiver));
  receiver->EndSleep();
  EXPECT_FALSE(receiver->Receive().bytes.empty());
  EXPECT_FALSE(receiver->BeginSleep()) << "the second frame is here already";
}

TEST_F(UdpPortTest, AddressIsTakenOnce) {
  const auto port = Open(kOurLoopback);
  EXPECT_NE(ErrorOf({kOurLoopback}).find("UDP port 4791 of 127.0.0.2 is taken"), std::string::npos);
  EXPECT_EQ(ErrorOf({Gid::FromIpv4({198, 51, 100, 1})}),
            "198.51.100.1 is not an address of this host that is up: choose one that 'ip address' "
            "lists");
}

TEST_F(UdpPortTest, ChildOfAForkLetsGoOfTheAddress) {
  auto port = Open(kOurLoopback);
  std::array<int, 2> ready;
  std::array<int, 2> done;
  ASSERT_EQ(pipe(ready.data()), 0);
  ASSERT_EQ(pipe(done.data()), 0);
  char byte = 0;
  const pid_t child = fork();
  if (child == 0) {
    port->AbandonAfterFork();
    close(done[1]);
    const bool told = write(ready[1], &byte, 1) == 1;
    _exit(told && read(done[0], &byte, 1) == 0 ? 0 : 1);  // lives until the parent is done
  }
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  port.reset();
  EXPECT_EQ(ErrorOf({kOurLoopback}), "");
  close(done[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], done[0]}) close(fd);
}

TEST_F(UdpPortTest, MtuIsThatOfTheInterface) {
  EXPECT_EQ(Open(kNear)->mtu(), 1'500u);
  EXPECT_EQ(Open(kNear, 1'400)->mtu(), 1'400u);
  EXPECT_EQ(Open(kOurLoopback)->mtu(), 4'210u) << "what RoCEv2 can use";
  EXPECT_EQ(
      ErrorOf({kNear}, 1'501),
      "the UDP port cannot have an MTU of 1501; the most that its interface can have is 1500");
}

// "near" is the only interface beside the loopback one, and there is no default route.
TEST_F(UdpPortTest, AddressesOfTheHostAreTheDefault) {
  const auto port = UdpPort::Open({}, 0);
  ASSERT_TRUE(port.ok()) << port.error();
  const std::vector<Gid> gids = port.value()->Gids();
  ASSERT_GE(gids.size(), 3u);
  EXPECT_TRUE(IsLinkLocal(gids[0]));
  EXPECT_EQ(gids[0], Gid::LinkLocal(port.value()->mac()));
  EXPECT_EQ(gids[1], kNear);
  EXPECT_EQ(AddressText(gids[2]), "fd77::1");
}

}  // namespace
}  // namespace uroce::nic
