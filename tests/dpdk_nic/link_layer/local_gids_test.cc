#include "dpdk_nic/link_layer/local_gids.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::nic {
namespace {

using transport::Gid;

constexpr Gid kMacs = Gid::LinkLocal({2, 0, 0, 0, 0, 1});

Gid Address(size_t number) {
  return Gid::FromIpv4({10, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)});
}

std::vector<Gid> Addresses(size_t first, size_t count) {
  std::vector<Gid> addresses;
  for (size_t i = 0; i < count; ++i) addresses.push_back(Address(first + i));
  return addresses;
}

class LocalGidsTest : public testing::Test {
 protected:
  bool Follow(const std::vector<Gid>& now) { return gids_.Follow(now); }
  void Expect(const std::vector<Gid>& gids) { EXPECT_EQ(gids_.gids(), gids); }

  LocalGids gids_{std::vector<Gid>{kMacs, Address(1), Address(2)}};
};

TEST_F(LocalGidsTest, SameAddressesInAnyOrderAreNoChange) {
  EXPECT_FALSE(Follow({Address(2), {}, Address(1)}));
  EXPECT_FALSE(Follow({Address(1), Address(2), kMacs}));
  Expect({kMacs, Address(1), Address(2)});
}

TEST_F(LocalGidsTest, UnchangedAddressKeepsItsIndex) {
  EXPECT_TRUE(Follow({Address(2)}));
  Expect({kMacs, {}, Address(2)});
  EXPECT_FALSE(Follow({Address(2)}));
}

TEST_F(LocalGidsTest, NewAddressLeavesTheEntryOfAnotherAlone) {
  EXPECT_TRUE(Follow({Address(2), Address(3)}));
  Expect({kMacs, {}, Address(2), Address(3)});
}

TEST_F(LocalGidsTest, AddressThatComesBackHasItsEntryAgain) {
  Follow({});
  Follow({Address(3)});
  EXPECT_TRUE(Follow({Address(3), Address(2), Address(1)}));
  Expect({kMacs, Address(1), Address(2), Address(3)});
}

TEST_F(LocalGidsTest, AddressThatCameLaterHasItsEntryAgain) {
  Follow({Address(1), Address(2), Address(3)});
  Follow({Address(1), Address(2)});
  Follow({Address(1), Address(2), Address(4)});
  EXPECT_TRUE(Follow({Address(1), Address(2), Address(3), Address(4)}));
  Expect({kMacs, Address(1), Address(2), Address(3), Address(4)});
}

TEST_F(LocalGidsTest, FirstEntryStays) {
  EXPECT_TRUE(Follow({}));
  Expect({kMacs, {}, {}});
}

TEST_F(LocalGidsTest, EntriesAreReusedWhenAllHaveBeenUsed) {
  Follow(Addresses(1, kMaxLocalAddresses));
  std::vector<Gid> now = Addresses(2, kMaxLocalAddresses - 1);
  now.push_back(Address(1'000));
  EXPECT_TRUE(Follow(now));
  EXPECT_EQ(gids_.gids().size(), LocalGids::kEntries);
  EXPECT_EQ(gids_.gids()[1], Address(1'000));
  now.push_back(Address(1));
  EXPECT_FALSE(Follow(now)) << "no room, and its entry is another's";
}

TEST_F(LocalGidsTest, AddressesBeyondTheTableAreLeftOut) {
  const std::vector<Gid> many = Addresses(1, kMaxLocalAddresses + 5);
  EXPECT_TRUE(Follow(many));
  EXPECT_EQ(gids_.gids().size(), LocalGids::kEntries);
  EXPECT_EQ(gids_.gids().back(), Address(kMaxLocalAddresses));
  EXPECT_FALSE(Follow(many));
}

}  // namespace
}  // namespace uroce::nic
