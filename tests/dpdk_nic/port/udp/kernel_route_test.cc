// The kernel's routes in a network namespace of the test's own, which a veth pair joins to another.
#include "dpdk_nic/port/udp/kernel_route.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "tests/dpdk_nic/port/dpdk/veth_pair.h"

namespace uroce::nic {
namespace {

using transport::Gid;

constexpr Gid kNear = Gid::FromIpv4({10, 77, 0, 1});
constexpr Gid kFar = Gid::FromIpv4({10, 77, 0, 2});
constexpr Gid kUnused = Gid::FromIpv4({10, 77, 0, 9});
constexpr Gid kElsewhere = Gid::FromIpv4({192, 168, 50, 5});
constexpr Gid kFar6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr Gid kElsewhere6 = {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

class KernelRouteTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!veth_.problem().empty()) GTEST_SKIP() << veth_.problem();
  }
  // Adds an interface with an address that shares more leading bits with kElsewhere than kNear.
  static void AddBridge() {
    VethPair::Run("ip link add virbr0 type bridge");
    VethPair::Run("ip address add 192.168.122.1/24 dev virbr0");
    VethPair::Run("ip link set virbr0 up");
  }
  static Gid SourceTo(const Gid& destination) {
    return FindKernelRoute({.destination = destination}).source;
  }

  VethPair veth_{1'500};
};

TEST_F(KernelRouteTest, SourceIsThatOfTheRoute) {
  AddBridge();
  VethPair::Run("ip route add default via 10.77.0.2");
  EXPECT_EQ(SourceTo(kElsewhere), kNear);
}

TEST_F(KernelRouteTest, PreferredSourceAndMetricDecide) {
  VethPair::Run("ip address add 10.77.0.7/24 dev near");
  VethPair::Run("ip route add 192.168.50.0/24 via 10.77.0.2 metric 50 src 10.77.0.7");
  EXPECT_EQ(SourceTo(kElsewhere), Gid::FromIpv4({10, 77, 0, 7}));
  VethPair::Run("ip route add 192.168.50.0/24 via 10.77.0.2 metric 10 src 10.77.0.1");
  EXPECT_EQ(SourceTo(kElsewhere), kNear);
}

TEST_F(KernelRouteTest, PolicyRuleGivesARouteToOneSourceOnly) {
  VethPair::Run("ip address add 10.77.0.7/24 dev near");
  VethPair::Run("ip rule add from 10.77.0.7 lookup 100");
  VethPair::Run("ip route add default via 10.77.0.2 table 100");
  EXPECT_EQ(FindKernelRoute({.destination = kElsewhere}).error, ENETUNREACH);
  EXPECT_EQ(FindKernelRoute({.destination = kElsewhere, .source = kNear}).error, ENETUNREACH);
  const RouteQuestion from_other{.destination = kElsewhere,
                                 .source = Gid::FromIpv4({10, 77, 0, 7})};
  EXPECT_EQ(FindKernelRoute(from_other).error, 0);
  const auto hop = FindNextHop(from_other);
  ASSERT_TRUE(hop.has_value());
  EXPECT_EQ(hop->gid, kFar);
}

TEST_F(KernelRouteTest, ErrorsAreThoseOfTheKernel) {
  EXPECT_EQ(FindKernelRoute({.destination = kElsewhere}).error, ENETUNREACH);
  EXPECT_EQ(FindKernelRoute({.destination = kElsewhere6}).error, ENETUNREACH);
  EXPECT_EQ(FindKernelRoute({.destination = kFar, .source = kElsewhere}).error, EADDRNOTAVAIL);
  VethPair::Run("ip route add unreachable 192.168.50.0/24");
  EXPECT_EQ(FindKernelRoute({.destination = kElsewhere}).error, EHOSTUNREACH);
}

TEST_F(KernelRouteTest, NextHopIsTheGatewayOrTheDestination) {
  const int near = static_cast<int>(if_nametoindex("near"));
  for (const Gid& far : {kFar, kFar6}) {
    const auto hop = FindNextHop({.destination = far});
    ASSERT_TRUE(hop.has_value());
    EXPECT_EQ(hop->gid, far);
    EXPECT_EQ(hop->interface_index, near);
  }
  VethPair::Run("ip route add 192.168.50.0/24 via inet6 fd77::2 dev near");
  const auto hop = FindNextHop({.destination = kElsewhere});
  ASSERT_TRUE(hop.has_value());
  EXPECT_EQ(hop->gid, kFar6);
  EXPECT_FALSE(FindNextHop({.destination = kElsewhere6}).has_value());
}

// ip4_dst_hoplimit, ip6_dst_hoplimit.
TEST_F(KernelRouteTest, HopLimitIsThatOfTheRouteOrTheDefault) {
  VethPair::Run("sysctl -q -w net.ipv4.ip_default_ttl=77");
  VethPair::Run("sysctl -q -w net.ipv6.conf.near.hop_limit=78");
  EXPECT_EQ(HopLimitOf({.destination = kFar}), 77);
  EXPECT_EQ(HopLimitOf({.destination = kFar6}), 78);
  VethPair::Run("ip route add 192.168.50.0/24 via 10.77.0.2 mtu 1400 hoplimit 9");
  VethPair::Run("ip route add 2001:db8::/32 via fd77::2 hoplimit 8");
  EXPECT_EQ(HopLimitOf({.destination = kElsewhere}), 9);
  EXPECT_EQ(HopLimitOf({.destination = kElsewhere, .source = kNear}), 9);
  EXPECT_EQ(HopLimitOf({.destination = kElsewhere6}), 8);
  EXPECT_EQ(HopLimitOf({.destination = Gid::FromIpv4({192, 0, 2, 1})}), kDefaultHopLimit);
}

TEST_F(KernelRouteTest, NeighborIsResolvedOnceItHasAnswered) {
  for (const Gid& far : {kFar, kFar6}) {
    const auto hop = FindNextHop({.destination = far});
    ASSERT_TRUE(hop.has_value());
    EXPECT_FALSE(IsResolved(*hop));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!IsResolved(*hop) && std::chrono::steady_clock::now() < end) usleep(1'000);
    EXPECT_TRUE(IsResolved(*hop));
  }
  EXPECT_FALSE(IsResolved(*FindNextHop({.destination = kUnused})));
}

TEST_F(KernelRouteTest, InterfaceWithoutAddressResolutionNeedsNoNeighbor) {
  VethPair::Run("ip link set lo up");
  EXPECT_TRUE(IsResolved(*FindNextHop({.destination = kNear})));
  VethPair::Run("ip link set near arp off");
  EXPECT_TRUE(IsResolved(*FindNextHop({.destination = kUnused})));
}

}  // namespace
}  // namespace uroce::nic
