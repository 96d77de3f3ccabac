// The kernel's tables for a veth pair between two network namespaces that the test makes.
#include "dpdk_nic/link_layer/rtnetlink_tables.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "tests/dpdk_nic/port/dpdk/veth_pair.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;
using Change = KernelTables::Change;

constexpr Gid kNearIpv4 = Gid::FromIpv4({10, 77, 0, 1});
constexpr Gid kFarIpv4 = Gid::FromIpv4({10, 77, 0, 2});
constexpr Gid kUnusedIpv4 = Gid::FromIpv4({10, 77, 0, 9});
constexpr Gid kElsewhereIpv4 = Gid::FromIpv4({192, 0, 2, 1});
constexpr Gid kNearIpv6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kFarIpv6 = {{0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr Gid kElsewhereIpv6 = {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr MacAddress kFarMac = {0x02, 0x77, 0, 0, 0, 2};
constexpr MacAddress kOtherMac = {0x02, 0x77, 0, 0, 0, 3};

// Waits until `condition` holds; false after a minute, which is long for any machine.
bool Eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    usleep(1'000);
  }
  return true;
}

void DropNetAdmin() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[2];
  if (syscall(SYS_capget, &header, data) != 0) _exit(10);
  for (auto* set : {&data[0].effective, &data[0].permitted}) *set &= ~(1u << CAP_NET_ADMIN);
  if (syscall(SYS_capset, &header, data) != 0) _exit(11);
}

class RtnetlinkTablesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!veth_.problem().empty()) GTEST_SKIP() << veth_.problem();
  }
  RtnetlinkTables Tables() { return RtnetlinkTables(static_cast<int>(if_nametoindex("near"))); }

  static void DropNews(RtnetlinkTables* tables) {
    while (tables->NextChange()) {
    }
  }
  // Waits for a change of this kind.
  static std::optional<Change> ChangeOf(RtnetlinkTables* tables, Change::Kind kind) {
    std::optional<Change> news;
    Eventually([&] {
      news = tables->NextChange();
      return news && news->kind == kind;
    });
    return news;
  }

  VethPair veth_{1'500};
};

TEST_F(RtnetlinkTablesTest, AddressesAreThoseOfTheInterface) {
  RtnetlinkTables tables = Tables();
  const auto addresses = tables.Addresses();
  const auto has = [&](const LocalAddress& address) {
    return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
  };
  EXPECT_TRUE(has({kNearIpv4, 24}));
  EXPECT_TRUE(has({kNearIpv6, 64}));
  EXPECT_FALSE(has({Gid::FromIpv4({127, 0, 0, 1}), 8}));
}

TEST_F(RtnetlinkTablesTest, GatewayIsThatOfTheRoute) {
  RtnetlinkTables tables = Tables();
  EXPECT_EQ(tables.NextHop(kFarIpv4), kFarIpv4);
  EXPECT_EQ(tables.NextHop(kFarIpv6), kFarIpv6);
  EXPECT_EQ(tables.NextHop(kElsewhereIpv4), kElsewhereIpv4) << "no route";
  VethPair::Run("ip route add 192.0.2.0/24 via 10.77.0.2");
  VethPair::Run("ip route add 2001:db8::/32 via fd77::2");
  EXPECT_EQ(tables.NextHop(kElsewhereIpv4), kFarIpv4);
  EXPECT_EQ(tables.NextHop(kElsewhereIpv6), kFarIpv6);
}

TEST_F(RtnetlinkTablesTest, NeighborIsFoundAfterTheKernelWasMadeToAsk) {
  RtnetlinkTables tables = Tables();
  for (const Gid& neighbor : {kFarIpv4, kFarIpv6}) {
    EXPECT_EQ(tables.Find(neighbor).mac, std::nullopt);
    tables.Ask(neighbor);
    EXPECT_TRUE(Eventually([&] { return tables.Find(neighbor).mac == kFarMac; }));
    EXPECT_TRUE(tables.Find(neighbor).is_confirmed);
  }
}

TEST_F(RtnetlinkTablesTest, NeighborIsFoundWithoutCapNetAdmin) {
  const pid_t child = fork();
  if (child == 0) {
    DropNetAdmin();
    RtnetlinkTables tables = Tables();
    for (const Gid& neighbor : {kFarIpv4, kFarIpv6}) {
      tables.Ask(neighbor);
      if (!Eventually([&] { return tables.Find(neighbor).mac == kFarMac; })) _exit(12);
    }
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(RtnetlinkTablesTest, NeighborThatDoesNotAnswerStaysUnknown) {
  RtnetlinkTables tables = Tables();
  tables.Ask(kUnusedIpv4);
  EXPECT_EQ(tables.Find(kUnusedIpv4).mac, std::nullopt);
  // The kernel reports that it has given up.
  EXPECT_TRUE(Eventually([&] {
    const auto news = tables.NextChange();
    return news && news->kind == Change::Kind::kNeighbor && news->neighbor == kUnusedIpv4;
  }));
  EXPECT_EQ(tables.Find(kUnusedIpv4).mac, std::nullopt);
}

TEST_F(RtnetlinkTablesTest, NeighborEnteredByHandIsConfirmed) {
  RtnetlinkTables tables = Tables();
  VethPair::Run("ip neighbor add 10.77.0.9 lladdr 02:77:00:00:00:03 dev near nud permanent");
  const auto news = ChangeOf(&tables, Change::Kind::kNeighbor);
  ASSERT_TRUE(news.has_value());
  EXPECT_EQ(news->neighbor, kUnusedIpv4);
  EXPECT_EQ(news->state.mac, kOtherMac);
  EXPECT_TRUE(news->state.is_confirmed);
  EXPECT_TRUE(tables.Find(kUnusedIpv4).is_confirmed);
  VethPair::Run("ip neighbor delete 10.77.0.9 dev near");
  EXPECT_TRUE(Eventually([&] { return !tables.Find(kUnusedIpv4).mac; }));
}

TEST_F(RtnetlinkTablesTest, NeighborThatChangesItsAddressIsNews) {
  RtnetlinkTables tables = Tables();
  tables.Ask(kFarIpv4);
  ASSERT_TRUE(Eventually([&] { return tables.Find(kFarIpv4).mac == kFarMac; }));
  DropNews(&tables);
  veth_.RunFar("sh -c 'echo 1 > /proc/sys/net/ipv4/conf/far/arp_notify'");
  EXPECT_TRUE(Eventually([&] {
    // Announced again and again, as the kernel ignores changes for a second.
    veth_.RunFar("ip link set far address 02:77:00:00:00:03");
    const auto news = tables.NextChange();
    return news && news->kind == Change::Kind::kNeighbor && news->state.mac == kOtherMac;
  }));
}

TEST_F(RtnetlinkTablesTest, AddressesThatComeAndGoAreNews) {
  RtnetlinkTables tables = Tables();
  DropNews(&tables);
  VethPair::Run("ip address add 10.77.1.1/24 dev near");
  EXPECT_TRUE(ChangeOf(&tables, Change::Kind::kAddresses).has_value());
  DropNews(&tables);
  VethPair::Run("ip address delete 10.77.1.1/24 dev near");
  EXPECT_TRUE(ChangeOf(&tables, Change::Kind::kAddresses).has_value());
}

TEST_F(RtnetlinkTablesTest, OtherInterfacesAreNoNews) {
  RtnetlinkTables tables = Tables();
  DropNews(&tables);
  VethPair::Run("ip address add 127.0.0.9/8 dev lo");
  VethPair::Run("ip address add 10.77.1.1/24 dev near");
  ASSERT_TRUE(ChangeOf(&tables, Change::Kind::kAddresses).has_value());
  EXPECT_FALSE(tables.NextChange().has_value());
}

TEST_F(RtnetlinkTablesTest, MoreNewsThanTheSocketHoldsAreAGap) {
  RtnetlinkTables tables = Tables();
  // Some hundred bytes each; the receive buffer holds about 200 KiB.
  VethPair::Run(
      "sh -c 'for a in 1 2 3 4 5 6 7 8 9 10 11 12; do for b in $(seq 250); do "
      "echo neighbor replace 10.$a.9.$b lladdr 02:77:00:00:00:09 dev near; done; done "
      "| ip -batch -'");
  EXPECT_TRUE(ChangeOf(&tables, Change::Kind::kGap).has_value());
  EXPECT_TRUE(tables.Find(Gid::FromIpv4({10, 12, 9, 250})).mac.has_value());
}

}  // namespace
}  // namespace uroce::nic
