// Which groups a process may join, given the groups of itself and of its user's other processes.
#include "dpdk_nic/control/group_shares.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace uroce::nic::control {
namespace {

using transport::Gid;
using Verdict = GroupShares::Verdict;

constexpr uid_t kAlice = 1'000;
constexpr uid_t kBob = 1'001;
constexpr size_t kRoom = 16;

Gid Group(size_t number) {
  return Gid::FromIpv4({239, 1, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)});
}

class GroupSharesTest : public testing::Test {
 protected:
  Verdict Join(Block block, uid_t uid, size_t group) {
    const Verdict verdict = shares_.MayJoin(block, uid, Group(group), kRoom);
    if (verdict == Verdict::kMayJoin) shares_.Join(block, uid, Group(group));
    return verdict;
  }
  // Joins as many groups as a process may have, from `first` on.
  void JoinAll(Block block, uid_t uid, size_t first) {
    for (size_t i = 0; i < GroupShares::ProcessLimit(kRoom); ++i) {
      ASSERT_EQ(Join(block, uid, first + i), Verdict::kMayJoin) << i;
    }
  }

  GroupShares shares_;
};

TEST_F(GroupSharesTest, ProcessHasAQuarterAndItsUserHalf) {
  JoinAll(1, kAlice, 0);
  EXPECT_EQ(Join(1, kAlice, 50), Verdict::kProcessHasTooMany);
  JoinAll(2, kAlice, 10);
  EXPECT_EQ(Join(3, kAlice, 20), Verdict::kUserHasTooMany);
  EXPECT_EQ(shares_.GroupsOf(1), 4u);
  EXPECT_EQ(shares_.GroupsOf(3), 0u);
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 8u);
  JoinAll(4, kBob, 30);
  EXPECT_EQ(shares_.GroupsOfUser(kBob), 4u);
}

TEST_F(GroupSharesTest, MemberMayJoinAgain) {
  JoinAll(1, kAlice, 0);
  EXPECT_EQ(Join(1, kAlice, 0), Verdict::kMayJoin);
  EXPECT_EQ(shares_.GroupsOf(1), 4u);
  shares_.Leave(1, Group(0));
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 3u) << "it was counted once";
}

TEST_F(GroupSharesTest, GroupOfSeveralProcessesCountsOnceForTheirUser) {
  JoinAll(1, kAlice, 0);
  JoinAll(2, kAlice, 0);
  JoinAll(3, kAlice, 0);
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 4u);
  JoinAll(4, kAlice, 10);
  EXPECT_EQ(Join(5, kAlice, 20), Verdict::kUserHasTooMany);
  EXPECT_EQ(Join(5, kAlice, 3), Verdict::kMayJoin) << "its user has that one already";
  shares_.Leave(1, Group(0));
  EXPECT_EQ(Join(5, kAlice, 20), Verdict::kUserHasTooMany) << "others are members";
  shares_.Leave(2, Group(0));
  shares_.Leave(3, Group(0));
  EXPECT_EQ(Join(5, kAlice, 20), Verdict::kMayJoin);
}

TEST_F(GroupSharesTest, GroupOfSeveralUsersCountsForEach) {
  JoinAll(1, kAlice, 0);
  JoinAll(2, kBob, 0);
  JoinAll(3, kBob, 10);
  EXPECT_EQ(Join(4, kBob, 20), Verdict::kUserHasTooMany);
  EXPECT_EQ(Join(5, kAlice, 20), Verdict::kMayJoin);
}

TEST_F(GroupSharesTest, GroupsAreGivenBack) {
  JoinAll(1, kAlice, 0);
  JoinAll(2, kAlice, 10);
  shares_.Leave(1, Group(50));  // block 1 is no member
  shares_.Leave(3, Group(0));
  EXPECT_EQ(Join(3, kAlice, 20), Verdict::kUserHasTooMany);
  shares_.Leave(1, Group(0));
  EXPECT_EQ(Join(1, kAlice, 21), Verdict::kMayJoin);
  shares_.Remove(1);
  shares_.Remove(1);
  EXPECT_EQ(shares_.GroupsOf(1), 0u);
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 4u);
  JoinAll(3, kAlice, 20);
  shares_.Remove(2);
  shares_.Remove(3);
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 0u);
}

// The block of a process that has ended may later belong to another user.
TEST_F(GroupSharesTest, BlockMayBecomeAnotherUsers) {
  JoinAll(1, kAlice, 0);
  shares_.Remove(1);
  JoinAll(1, kBob, 0);
  EXPECT_EQ(shares_.GroupsOfUser(kAlice), 0u);
  EXPECT_EQ(shares_.GroupsOfUser(kBob), 4u);
  shares_.Remove(1);
  EXPECT_EQ(shares_.GroupsOfUser(kBob), 0u);
}

TEST_F(GroupSharesTest, LimitFollowsTheRoom) {
  JoinAll(1, kAlice, 0);
  EXPECT_EQ(shares_.MayJoin(1, kAlice, Group(50), 20), Verdict::kMayJoin);
  EXPECT_EQ(shares_.MayJoin(1, kAlice, Group(50), SIZE_MAX), Verdict::kMayJoin);
  EXPECT_EQ(shares_.MayJoin(1, kAlice, Group(50), 8), Verdict::kProcessHasTooMany);
  EXPECT_EQ(shares_.MayJoin(1, kAlice, Group(0), 8), Verdict::kMayJoin) << "it has it already";
}

}  // namespace
}  // namespace uroce::nic::control
