#include "dpdk_nic/switch/service_table.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace uroce::nic {
namespace {

using control::Block;
using control::kSwitchBlock;
using control::Listen;
using control::ServiceClaim;
using transport::Gid;
using transport::cm::ServiceId;

constexpr Block kAlice = 3;
constexpr Block kBob = 1'000;
constexpr ServiceId kService{0x0106'1d2f};
constexpr Gid kFirst = Gid::FromIpv4({192, 0, 2, 1});
constexpr Gid kSecond = Gid::FromIpv4({192, 0, 2, 2});
constexpr Gid kIpv6 = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr ServiceClaim kEverywhere{kService.value, {}, 0};
constexpr ServiceClaim kAllOfIpv4{kService.value, Gid::FromIpv4({}), 0};
constexpr ServiceClaim kAllOfIpv6{kService.value, {}, 1};

constexpr ServiceClaim At(const Gid& address) { return {kService.value, address, 0}; }
constexpr Listen Bound(const ServiceClaim& claim, bool shares = false) {
  return {claim, shares, false};
}
constexpr Listen Listening(const ServiceClaim& claim) { return {claim, false, true}; }

TEST(ServiceTableTest, BoundServiceIsOfOneProcessUntilItIsRemoved) {
  ServiceTable table;
  EXPECT_EQ(table.Add(kAlice, Bound(kEverywhere)), 0);
  EXPECT_EQ(table.Add(kAlice, Bound(kEverywhere)), 0) << "once more";
  EXPECT_EQ(table.ClaimsOf(kAlice), 1u);
  EXPECT_EQ(table.Add(kBob, Bound(kEverywhere)), EADDRINUSE);
  table.Remove(kBob, kEverywhere);
  EXPECT_TRUE(table.Has(kAlice, kService));
  table.Remove(kAlice, kEverywhere);
  EXPECT_FALSE(table.Has(kAlice, kService));
  EXPECT_EQ(table.ClaimsOf(kAlice), 0u);
  EXPECT_EQ(table.Add(kBob, Bound(kEverywhere)), 0);
}

TEST(ServiceTableTest, AddressesThatOverlapAreInUse) {
  struct Case {
    ServiceClaim first, second;
    int error;
  };
  for (const Case& c : {Case{At(kFirst), At(kFirst), EADDRINUSE},
                        {At(kFirst), At(kSecond), 0},
                        {At(kFirst), kEverywhere, EADDRINUSE},
                        {At(kFirst), kAllOfIpv4, EADDRINUSE},
                        {At(kFirst), kAllOfIpv6, 0},
                        {At(kIpv6), kAllOfIpv4, 0},
                        {At(kIpv6), kAllOfIpv6, EADDRINUSE},
                        {kAllOfIpv4, kAllOfIpv6, 0},
                        {kAllOfIpv4, kAllOfIpv4, EADDRINUSE},
                        {kAllOfIpv6, kAllOfIpv6, EADDRINUSE},
                        {kAllOfIpv4, kEverywhere, EADDRINUSE},
                        {kAllOfIpv6, kEverywhere, EADDRINUSE}}) {
    for (const bool is_swapped : {false, true}) {
      ServiceTable table;
      EXPECT_EQ(table.Add(kAlice, Bound(is_swapped ? c.second : c.first)), 0);
      EXPECT_EQ(table.Add(kBob, Bound(is_swapped ? c.first : c.second)), c.error);
    }
  }
}

TEST(ServiceTableTest, SharedServiceIsNotListenedToByTwo) {
  ServiceTable table;
  EXPECT_EQ(table.Add(kAlice, Bound(kEverywhere, true)), 0);
  EXPECT_EQ(table.Add(kBob, Bound(kEverywhere)), EADDRINUSE) << "does not share";
  EXPECT_EQ(table.Add(kBob, Bound(kEverywhere, true)), 0);
  EXPECT_EQ(table.Add(kAlice, Listening(kEverywhere)), EADDRINUSE);
  EXPECT_EQ(table.ListenerOf(kService, kFirst), kSwitchBlock);
  EXPECT_TRUE(table.Has(kAlice, kService)) << "what was granted before holds on";
  table.Remove(kBob, kEverywhere);
  EXPECT_EQ(table.Add(kAlice, Listening(kEverywhere)), 0);
  EXPECT_EQ(table.ListenerOf(kService, kFirst), kAlice);
}

TEST(ServiceTableTest, OnlyListenersAreFound) {
  ServiceTable table;
  EXPECT_EQ(table.Add(kAlice, Bound(kEverywhere)), 0);
  EXPECT_EQ(table.ListenerOf(kService, kFirst), kSwitchBlock);
  const uint64_t before = table.additions();
  EXPECT_EQ(table.Add(kAlice, Listening(kEverywhere)), 0);
  EXPECT_NE(table.additions(), before);
  EXPECT_EQ(table.ListenerOf(kService, kFirst), kAlice);
  EXPECT_EQ(table.ListenerOf({kService.value + 1}, kFirst), kSwitchBlock);
}

TEST(ServiceTableTest, ListenerIsFoundByItsAddress) {
  ServiceTable table;
  EXPECT_EQ(table.Add(kAlice, Listening(kAllOfIpv6)), 0);
  EXPECT_EQ(table.Add(kAlice, Listening(At(kFirst))), 0);
  EXPECT_EQ(table.Add(kBob, Listening(At(kSecond))), 0);
  EXPECT_EQ(table.ListenerOf(kService, kFirst), kAlice);
  EXPECT_EQ(table.ListenerOf(kService, kSecond), kBob);
  EXPECT_EQ(table.ListenerOf(kService, kIpv6), kAlice);
  EXPECT_EQ(table.ListenerOf(kService, Gid::FromIpv4({192, 0, 2, 3})), kSwitchBlock);
}

TEST(ServiceTableTest, ClaimsOfAProcessAreLimited) {
  ServiceTable table;
  for (uint64_t i = 0; i < ServiceTable::kMaxClaims; ++i) {
    ASSERT_EQ(table.Add(kAlice, Bound({i, {}, 0})), 0);
  }
  EXPECT_EQ(table.Add(kAlice, Bound({1 << 20, {}, 0})), ENOSPC);
  EXPECT_EQ(table.Add(kAlice, Listening({5, {}, 0})), 0) << "one that it has already";
  EXPECT_EQ(table.Add(kBob, Bound({1 << 20, {}, 0})), 0);
  table.Remove(kAlice);
  EXPECT_EQ(table.ClaimsOf(kAlice), 0u);
  EXPECT_EQ(table.Add(kBob, Bound({5, {}, 0})), 0);
  EXPECT_TRUE(table.Has(kBob, {1 << 20}));
}

}  // namespace
}  // namespace uroce::nic
