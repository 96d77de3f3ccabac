// net_af_packet and net_af_xdp over a veth pair between two network namespaces that the test makes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/dpdk_nic/port/dpdk/dpdk_test_support.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;
using transport::Time;

constexpr Gid kNearIp = Gid::FromIpv4({10, 77, 0, 1});
constexpr Gid kNearIpv6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kFarIp = Gid::FromIpv4({10, 77, 0, 2});
constexpr Gid kFarIpv6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr Gid kOwnIp = Gid::FromIpv4({10, 77, 0, 50});  // not an address of the kernel
constexpr MacAddress kFarMac = {0x02, 0x77, 0, 0, 0, 2};

ifreq AskInterface(const std::string& name, unsigned long request_code) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  EXPECT_EQ(ioctl(fd, request_code, &request), 0);
  close(fd);
  return request;
}

MacAddress InterfaceMac(const std::string& name) {
  ifreq request = AskInterface(name, SIOCGIFHWADDR);
  MacAddress mac;
  std::copy_n(reinterpret_cast<uint8_t*>(request.ifr_hwaddr.sa_data), 6, mac.begin());
  return mac;
}

// Serves the link layer with the port's frames and deadlines, as an engine does.
void RunLinkLayer(OpenedPort* opened, Time now) {
  opened->port->ServeLink();
  for (auto frame = opened->port->Receive().bytes; !frame.empty();
       frame = opened->port->Receive().bytes) {
    opened->link_layer->OnFrame(now, frame);
    opened->port->ReleaseReceived();
  }
  if (opened->link_layer->NextDeadline() <= now) opened->link_layer->OnDeadline(now);
  while (opened->link_layer->HasTransmit()) {
    const auto out = opened->port->AcquireTransmit(transport::Route::kWire);
    if (out.empty()) break;
    opened->port->CommitTransmit(opened->link_layer->PollTransmit(now, out));
  }
  opened->port->Flush();
}

Time Now() {
  return {std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
}

struct Wire {
  std::string driver;
  uint32_t mtu_bytes;
};

class VethTest : public testing::TestWithParam<Wire> {
 protected:
  void SetUp() override {
    if (!veth_.problem().empty()) GTEST_SKIP() << veth_.problem();
    if (GetParam().driver == "net_af_xdp" && veth_.in_user_namespace()) {
      GTEST_SKIP() << "AF_XDP is for root only";
    }
    ASSERT_NO_FATAL_FAILURE(Open(kNearIp));
    ASSERT_TRUE(LinkBecomes(true));
  }
  void Open(const Gid& ip) {
    near_ = {};
    near_ = OpenDpdkPort(DevargsOf("near"), 0, ip);
    ASSERT_NE(near_.port, nullptr) << near_.error;
  }
  std::string DevargsOf(const std::string& interface) const {
    return GetParam().driver + "0,iface=" + interface;
  }
  bool LinkBecomes(bool up) {
    return PollUntil([&] {
      near_.port->ServeLink();
      return near_.port->link_up() == up;
    });
  }
  // Whether a frame comes back from the far end.
  bool FramesFlow(Traffic* traffic) {
    const uint64_t received = traffic->received();
    return PollUntil([&] {
      near_.port->ServeLink();
      traffic->Send(traffic->sent() + 1);
      traffic->Receive();
      return traffic->received() > received;
    });
  }
  Peer::Options Far() const { return {.network_namespace = veth_.far_namespace()}; }
  uint64_t LongestFrame() const { return std::min<uint64_t>(GetParam().mtu_bytes + 14, 4'224); }

  VethPair veth_{GetParam().mtu_bytes};
  OpenedPort near_;
};

TEST_P(VethTest, PortIsThatOfTheInterface) {
  EXPECT_EQ(near_.port->mtu(), GetParam().mtu_bytes);
  EXPECT_EQ(near_.port->mac(), InterfaceMac("near"));
  EXPECT_GE(near_.port->wait_fd(), 0);
}

TEST_P(VethTest, EveryFrameComesBackUnharmed) {
  Peer peer(DevargsOf("far"), Far());
  Traffic traffic(near_.port.get(), 60, LongestFrame());
  ASSERT_TRUE(FramesFlow(&traffic));
  // Ethernet drops frames for which the receiver has no room, so a window limits them. Every 100th
  // pass ignores the window, as frames that were dropped would keep it closed.
  constexpr uint64_t kFrames = 4'000;
  const uint64_t start = traffic.received();
  uint64_t passes = 0;
  EXPECT_TRUE(PollUntil([&] {
    if (traffic.under_way() < 256 || ++passes % 100 == 0) traffic.Send();
    traffic.Receive();
    return traffic.received() >= start + kFrames;
  }));
  EXPECT_EQ(traffic.corrupt(), 0u);
  EXPECT_EQ(traffic.out_of_order(), 0u);
}

TEST_P(VethTest, KernelResolvesNeighborsForItsOwnAddresses) {
  for (const Gid& far : {kFarIp, kFarIpv6}) {
    ASSERT_NO_FATAL_FAILURE(Open(far == kFarIp ? kNearIp : kNearIpv6));
    EXPECT_TRUE(PollUntil([&] {
      RunLinkLayer(&near_, Now());
      return near_.link_layer->Resolve(Now(), far) == kFarMac;
    }));
  }
  EXPECT_EQ(system("ip neighbor show dev near | grep -q ^10.77.0.2") +
                system("ip neighbor show dev near | grep -q ^fd77::2"),
            0);
}

TEST_P(VethTest, NeighborsAreResolvedByOurselvesForAnAddressThatTheKernelLacks) {
  if (GetParam().driver == "net_af_xdp") GTEST_SKIP() << "refuses such addresses";
  ASSERT_NO_FATAL_FAILURE(Open(kOwnIp));
  // The far kernel resolves our address.
  veth_.RunFar("ip neighbor add 10.77.0.50 dev far use nud none");
  const std::string found = "nsenter --net=" + veth_.far_namespace() +
                            " ip neighbor show 10.77.0.50 dev far nud reachable | grep -q lladdr";
  EXPECT_TRUE(PollUntil([&] {
    RunLinkLayer(&near_, Now());
    return system(found.c_str()) == 0;
  }));
  EXPECT_TRUE(PollUntil([&] {
    RunLinkLayer(&near_, Now());
    return near_.link_layer->Resolve(Now(), kFarIp) == kFarMac;
  }));
  EXPECT_NE(system("ip neighbor show dev near | grep -q ^10.77.0.2"), 0) << "the kernel asked, too";
}

TEST_P(VethTest, LinkFollowsTheCarrier) {
  Peer peer(DevargsOf("far"), Far());
  Traffic traffic(near_.port.get(), 60, 60);
  ASSERT_TRUE(FramesFlow(&traffic));
  for (const std::string end : {"far", "near"}) {
    const auto run = [&](const std::string& command) {
      end == "far" ? veth_.RunFar(command) : VethPair::Run(command);
    };
    run("ip link set " + end + " down");
    EXPECT_TRUE(LinkBecomes(false)) << end;
    const uint64_t dropped = near_.port->counters().transmit_dropped_no_link;
    traffic.Send(traffic.sent() + 1);
    EXPECT_EQ(near_.port->counters().transmit_dropped_no_link, dropped + 1);
    EXPECT_FALSE(near_.port->failed());
    run("ip link set " + end + " up");
    EXPECT_TRUE(LinkBecomes(true)) << end;
    EXPECT_TRUE(FramesFlow(&traffic)) << end;
  }
}

TEST_P(VethTest, SleeperIsWokenByTheCarrier) {
  const auto wait_for = [&](int timeout_ms) {
    pollfd wait{.fd = near_.port->wait_fd(), .events = POLLIN, .revents = 0};
    return poll(&wait, 1, timeout_ms);
  };
  // Sleeps whenever there is nothing to do. The kernels' own frames wake it, too.
  const auto sleep_until_link = [&](bool up) {
    return PollUntil([&] {
      Traffic(near_.port.get(), 60, 60).Receive();
      if (near_.port->BeginSleep()) {
        EXPECT_EQ(wait_for(60'000), 1);
        near_.port->EndSleep();
      }
      return near_.port->link_up() == up;
    });
  };
  veth_.RunFar("ip link set far down");
  EXPECT_TRUE(sleep_until_link(false));
  Traffic(near_.port.get(), 60, 60).Receive();
  EXPECT_EQ(wait_for(0), 0) << "it would never sleep again";
  veth_.RunFar("ip link set far up");
  EXPECT_TRUE(sleep_until_link(true));
}

TEST_P(VethTest, DeletedInterfaceIsAFailure) {
  VethPair::Run("ip link delete near");
  EXPECT_TRUE(PollUntil([&] {
    near_.port->ServeLink();
    return near_.port->failed();
  }));
}

TEST_P(VethTest, SleeperIsWokenByAFrame) {
  Peer peer(DevargsOf("far"), Far());
  Traffic traffic(near_.port.get(), 60, 60);
  int wakes = 0;
  EXPECT_TRUE(PollUntil([&] {
    traffic.Send(traffic.sent() + 1);
    if (near_.port->BeginSleep()) {
      pollfd wait{.fd = near_.port->wait_fd(), .events = POLLIN, .revents = 0};
      if (poll(&wait, 1, 10) == 1) ++wakes;  // by the peer's answer; no answer while it starts
      near_.port->EndSleep();
    }
    traffic.Receive();
    return wakes > 20 && traffic.received() > 20;
  }));
}

// The far kernel sends to UDP port 4791, on which the near kernel has no listener. The near kernel
// sees the frames, too.
TEST_P(VethTest, KernelDoesNotAnswerRoceTraffic) {
  const pid_t child = fork();
  if (child == 0) {
    const int ns = open(veth_.far_namespace().c_str(), O_RDONLY);
    if (setns(ns, CLONE_NEWNET) != 0) _exit(2);
    // A connected UDP socket gets ECONNREFUSED for ICMP "port unreachable".
    const auto refused = [&](const char* near, uint16_t port) {
      sockaddr_in6 to{};
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      const int fd = socket(AF_INET6, SOCK_DGRAM, 0);
      if (inet_pton(AF_INET6, near, &to.sin6_addr) != 1) _exit(3);
      if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) _exit(4);
      for (int i = 0; i < 20; ++i) {
        if (send(fd, "x", 1, 0) < 0 && errno == ECONNREFUSED) return true;
        usleep(10'000);
      }
      return false;
    };
    for (const char* near : {"::ffff:10.77.0.1", "fd77::1"}) {
      if (refused(near, 4791)) _exit(5);
      if (!refused(near, 4792)) _exit(6);  // the control: other ports are answered
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_P(VethTest, FlagsOfTheInterfaceStayAsTheyAre) {
  near_ = {};
  ASSERT_EQ(system("ip link set near promisc on"), 0);  // as a packet sniffer would
  const short before = AskInterface("near", SIOCGIFFLAGS).ifr_flags;
  EXPECT_TRUE(before & IFF_PROMISC);
  ASSERT_NO_FATAL_FAILURE(Open(kNearIp));
  EXPECT_EQ(AskInterface("near", SIOCGIFFLAGS).ifr_flags, before);
  near_ = {};
  EXPECT_EQ(AskInterface("near", SIOCGIFFLAGS).ifr_flags, before);
}

INSTANTIATE_TEST_SUITE_P(Wires, VethTest,
                         testing::Values(Wire{"net_af_packet", 1'500}, Wire{"net_af_packet", 9'000},
                                         Wire{"net_af_xdp", 1'500}),
                         [](const auto& wire) {
                           return wire.param.driver + "_" + std::to_string(wire.param.mtu_bytes);
                         });

}  // namespace
}  // namespace uroce::nic
