#include "dpdk_nic/switch/forwarding_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <numeric>
#include <random>
#include <vector>

namespace uroce::nic {
namespace {

using control::Block;
using transport::Gid;
using transport::kMaxQps;
using transport::Qpn;

constexpr Block kAlice = 3;
constexpr Block kBob = 1'000;
constexpr Gid kFar = Gid::FromIpv4({192, 0, 2, 7});
constexpr Gid kFarther = Gid::FromIpv4({192, 0, 2, 8});
constexpr Gid kFarthest = Gid::FromIpv4({192, 0, 2, 9});
constexpr Gid kGroup = Gid::FromIpv4({239, 1, 2, 3});
constexpr Gid kOtherGroup = {{0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}};

Qpn QpOf(Block block, uint32_t number) { return {block * kMaxQps + number}; }

control::Declare Connection(Qpn local, uint32_t remote, const Gid& gid = kFar) {
  return {local, {remote}, gid};
}

std::vector<Block> Sorted(std::span<const Block> blocks) {
  std::vector<Block> sorted(blocks.begin(), blocks.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

TEST(ForwardingTableTest, ProcessesHaveAllBlocksButTheFirstAndTheLast) {
  EXPECT_FALSE(ForwardingTable::IsProcess(control::kSwitchBlock));
  EXPECT_TRUE(ForwardingTable::IsProcess(1));
  EXPECT_TRUE(ForwardingTable::IsProcess(transport::BlockOf(transport::kMulticastQpn) - 1));
  EXPECT_FALSE(ForwardingTable::IsProcess(transport::BlockOf(transport::kMulticastQpn)));
  EXPECT_FALSE(ForwardingTable::IsProcess(UINT32_MAX));
}

TEST(ForwardingTableTest, OnlyTheDeclaredPairIsOpenAndOnlyForItsProcess) {
  ForwardingTable table;
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 17), 42)), 0);
  EXPECT_TRUE(table.IsDeclared(kAlice, kFar, {42}));
  EXPECT_FALSE(table.IsDeclared(kBob, kFar, {42}));
  EXPECT_FALSE(table.IsDeclared(kAlice, kFar, {43}));
  EXPECT_FALSE(table.IsDeclared(kAlice, kFarther, {42}));
}

TEST(ForwardingTableTest, RemoteQueuePairBelongsToOneProcess) {
  ForwardingTable table;
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 17), 42)), 0);
  EXPECT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 42)), EBUSY);
  EXPECT_FALSE(table.IsDeclared(kBob, kFar, {42}));
  EXPECT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 42, kFarther)), 0);
  table.Forget(kAlice, QpOf(kAlice, 17));
  EXPECT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 42)), 0);
  EXPECT_TRUE(table.IsDeclared(kBob, kFar, {42}));
  EXPECT_FALSE(table.IsDeclared(kBob, kFarther, {42}));
}

TEST(ForwardingTableTest, RefusedDeclarationLeavesTheOldOne) {
  ForwardingTable table;
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 1), 42)), 0);
  ASSERT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 43)), 0);
  EXPECT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 42)), EBUSY);
  EXPECT_TRUE(table.IsDeclared(kBob, kFar, {43}));
  EXPECT_EQ(table.usage(kBob).declared_connections, 1u);
}

TEST(ForwardingTableTest, TwoQueuePairsOfOneProcessMayHaveTheSameRemoteEnd) {
  ForwardingTable table;
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 1), 42)), 0);
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 2), 42)), 0);
  EXPECT_EQ(table.usage(kAlice).declared_connections, 2u);
  table.Forget(kAlice, QpOf(kAlice, 1));
  EXPECT_TRUE(table.IsDeclared(kAlice, kFar, {42}));
  EXPECT_EQ(table.Declare(kBob, Connection(QpOf(kBob, 1), 42)), EBUSY);
  table.Forget(kAlice, QpOf(kAlice, 2));
  EXPECT_FALSE(table.IsDeclared(kAlice, kFar, {42}));
}

TEST(ForwardingTableTest, InvalidDeclarationIsRefused) {
  ForwardingTable table;
  const Qpn own = QpOf(kAlice, 0);
  EXPECT_EQ(table.Declare(kAlice, Connection(QpOf(kBob, 0), 42)), EINVAL);
  EXPECT_EQ(table.Declare(kAlice, Connection({own.value | 1 << 24}, 42)), EINVAL);
  EXPECT_EQ(table.Declare(kAlice, Connection(own, 1 << 24)), EINVAL);
  EXPECT_EQ(table.Declare(kAlice, Connection(own, transport::kMulticastQpn.value)), EINVAL);
  EXPECT_EQ(table.Declare(kAlice, Connection(own, 42, kGroup)), EINVAL);
  EXPECT_EQ(table.Declare(kAlice, Connection(own, 42, Gid{})), EINVAL);
  EXPECT_EQ(table.usage(kAlice).declared_connections, 0u);
  EXPECT_EQ(table.Declare(kAlice, Connection(own, transport::kMaxQpn - 1)), 0);
}

// A connection may migrate to the other address of its remote end.
TEST(ForwardingTableTest, AlternatePathIsOpenToo) {
  ForwardingTable table;
  const auto declare = [&table](Block block, const Gid& primary, const Gid& alternate) {
    return table.Declare(block, {QpOf(block, 1), {42}, primary, alternate});
  };
  ASSERT_EQ(declare(kAlice, kFar, kFarther), 0);
  EXPECT_TRUE(table.IsDeclared(kAlice, kFar, {42}));
  EXPECT_TRUE(table.IsDeclared(kAlice, kFarther, {42}));
  EXPECT_EQ(declare(kBob, kFarther, {}), EBUSY);
  EXPECT_EQ(declare(kBob, kFarthest, kFarther), EBUSY);
  EXPECT_FALSE(table.IsDeclared(kBob, kFarthest, {42}));
  EXPECT_EQ(declare(kAlice, kFar, kGroup), EINVAL);
  // The connection has migrated and gets another alternate path.
  ASSERT_EQ(declare(kAlice, kFarther, kFarthest), 0);
  EXPECT_FALSE(table.IsDeclared(kAlice, kFar, {42}));
  EXPECT_TRUE(table.IsDeclared(kAlice, kFarther, {42}));
  EXPECT_TRUE(table.IsDeclared(kAlice, kFarthest, {42}));
  table.Forget(kAlice, QpOf(kAlice, 1));
  EXPECT_EQ(table.usage(kAlice).declared_connections, 0u);
  ASSERT_EQ(declare(kBob, kFarther, kFarthest), 0);
  table.Remove(kBob);
  EXPECT_FALSE(table.IsDeclared(kBob, kFarther, {42}));
  EXPECT_FALSE(table.IsDeclared(kBob, kFarthest, {42}));
}

TEST(ForwardingTableTest, QueuePairForDatagramsIsConnectedToNone) {
  ForwardingTable table;
  const Qpn own = QpOf(kAlice, 0);
  ASSERT_EQ(table.Declare(kAlice, Connection(own, 42)), 0);
  EXPECT_EQ(table.Declare(kAlice, {.local = own, .remote = {}, .remote_gid = {}}), 0);
  EXPECT_FALSE(table.IsDeclared(kAlice, kFar, {42}));
  EXPECT_EQ(table.usage(kAlice).declared_connections, 0u);
  EXPECT_EQ(table.Declare(kAlice, {.local = QpOf(kBob, 0), .remote = {}, .remote_gid = {}}),
            EINVAL);
}

TEST(ForwardingTableTest, ForgettingAnothersQueuePairDoesNothing) {
  ForwardingTable table;
  ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, 1), 42)), 0);
  table.Forget(kBob, QpOf(kAlice, 1));
  table.Forget(kBob, QpOf(kBob, 1));
  table.Forget(kAlice, {UINT32_MAX});
  table.Forget(kAlice, QpOf(kAlice, 2));
  EXPECT_TRUE(table.IsDeclared(kAlice, kFar, {42}));
}

// Remote ends differ in their QPN or in their GID only: the table must tell them apart by either
// half.
TEST(ForwardingTableTest, EveryQueuePairOfAProcessCanBeConnected) {
  struct Remote {
    Gid gid;
    uint32_t qpn;
  };
  const auto of_one_host = [](uint32_t i) { return Remote{kFar, 1'000 + i}; };
  const auto of_each_host = [](uint32_t i) {
    return Remote{Gid::FromIpv4({10, static_cast<uint8_t>(i >> 16), static_cast<uint8_t>(i >> 8),
                                 static_cast<uint8_t>(i)}),
                  42};
  };
  for (Remote (*const remote)(uint32_t) : {+of_one_host, +of_each_host}) {
    ForwardingTable table;
    const auto is_declared = [&](uint32_t i) {
      return table.IsDeclared(kAlice, remote(i).gid, {remote(i).qpn});
    };
    for (uint32_t i = 0; i < kMaxQps; ++i) {
      const Remote end = remote(i);
      ASSERT_EQ(table.Declare(kAlice, Connection(QpOf(kAlice, i), end.qpn, end.gid)), 0);
    }
    EXPECT_EQ(table.usage(kAlice).declared_connections, kMaxQps);
    for (uint32_t i = 0; i < kMaxQps; ++i) ASSERT_TRUE(is_declared(i)) << i;
    // Of that many, hundreds share a bucket with a declared remote end.
    for (uint32_t i = kMaxQps; i < 100'000; ++i) ASSERT_FALSE(is_declared(i)) << i;
    table.Remove(kAlice);
    for (uint32_t i = 0; i < kMaxQps; ++i) ASSERT_FALSE(is_declared(i)) << i;
    EXPECT_EQ(table.usage(kAlice).declared_connections, 0u);
  }
}

// Compares with a model. There are few remote ends, so that declarations often replace, share and
// conflict.
TEST(ForwardingTableTest, AnySequenceOfDeclarationsAgreesWithAModel) {
  ForwardingTable table;
  std::map<uint32_t, uint32_t> model;  // local QPN -> remote QPN
  std::mt19937 random(4);
  const auto owner = [&model](uint32_t remote) {
    for (const auto& [local, declared] : model) {
      if (declared == remote) return transport::BlockOf(Qpn{local});
    }
    return control::kSwitchBlock;
  };
  for (int step = 0; step < 20'000; ++step) {
    const Block block = 1 + random() % 4;
    const Qpn local = QpOf(block, random() % 8);
    const uint32_t remote = 100 + random() % 16;
    switch (random() % 8) {
      case 0:
        table.Forget(block, local);
        model.erase(local.value);
        break;
      case 1:
        if (random() % 8 != 0) break;
        table.Remove(block);
        std::erase_if(model, [&](const auto& entry) {
          return transport::BlockOf(Qpn{entry.first}) == block;
        });
        break;
      default: {
        const bool busy = owner(remote) != control::kSwitchBlock && owner(remote) != block;
        ASSERT_EQ(table.Declare(block, Connection(local, remote)), busy ? EBUSY : 0);
        if (!busy) model[local.value] = remote;
      }
    }
    for (uint32_t r = 100; r < 116; ++r) {
      for (Block b = 1; b <= 4; ++b) ASSERT_EQ(table.IsDeclared(b, kFar, {r}), owner(r) == b);
    }
  }
}

TEST(ForwardingTableTest, MembersOfAGroupAreThoseThatJoinedAndDidNotLeave) {
  ForwardingTable table;
  EXPECT_TRUE(table.Members(kGroup).empty());
  EXPECT_EQ(table.JoinGroup(kAlice, kGroup), 0);
  EXPECT_EQ(table.JoinGroup(kAlice, kGroup), 0);
  EXPECT_EQ(table.JoinGroup(kBob, kGroup), 0);
  EXPECT_EQ(table.JoinGroup(kBob, kOtherGroup), 0);
  EXPECT_EQ(Sorted(table.Members(kGroup)), (std::vector<Block>{kAlice, kBob}));
  EXPECT_EQ(Sorted(table.Members(kOtherGroup)), (std::vector<Block>{kBob}));
  table.LeaveGroup(kAlice, kGroup);
  table.LeaveGroup(kAlice, kOtherGroup);
  EXPECT_EQ(Sorted(table.Members(kGroup)), (std::vector<Block>{kBob}));
  EXPECT_EQ(table.usage(kAlice).groups, 0u);
  EXPECT_EQ(table.usage(kBob).groups, 2u);
}

TEST(ForwardingTableTest, GroupsAreMulticastAddressesAndLimited) {
  ForwardingTable table;
  EXPECT_EQ(table.JoinGroup(kAlice, kFar), EINVAL);
  const auto group = [](size_t i) {
    return Gid::FromIpv4({239, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)});
  };
  for (size_t i = 0; i < ForwardingTable::kMaxGroups; ++i) {
    ASSERT_EQ(table.JoinGroup(kAlice, group(i)), 0);
  }
  EXPECT_EQ(table.JoinGroup(kAlice, group(ForwardingTable::kMaxGroups)), ENOSPC);
  EXPECT_TRUE(table.Members(group(ForwardingTable::kMaxGroups)).empty());
  EXPECT_EQ(table.JoinGroup(kAlice, group(0)), 0);
  EXPECT_EQ(table.JoinGroup(kBob, group(0)), 0);
}

TEST(ForwardingTableTest, RemoveForgetsOneProcessAndNoOther) {
  ForwardingTable table;
  for (const Block block : {kAlice, kBob}) {
    for (uint32_t i = 0; i < 100; ++i) {
      ASSERT_EQ(table.Declare(block, Connection(QpOf(block, i * 163), block + i)), 0);
    }
    for (const Gid& group : {kGroup, kOtherGroup}) ASSERT_EQ(table.JoinGroup(block, group), 0);
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(table.services().Add(block, {{block * 100 + i, {}, 0}, 0, 1}), 0);
    }
  }
  table.Remove(kAlice);
  EXPECT_EQ(table.usage(kAlice).declared_connections, 0u);
  EXPECT_EQ(table.usage(kAlice).groups, 0u);
  EXPECT_EQ(table.usage(kAlice).listeners, 0u);
  EXPECT_EQ(table.usage(kBob).declared_connections, 100u);
  EXPECT_EQ(table.usage(kBob).groups, 2u);
  EXPECT_EQ(table.usage(kBob).listeners, 10u);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_FALSE(table.IsDeclared(kAlice, kFar, {kAlice + i}));
    EXPECT_TRUE(table.IsDeclared(kBob, kFar, {kBob + i}));
  }
  EXPECT_EQ(Sorted(table.Members(kGroup)), (std::vector<Block>{kBob}));
  EXPECT_EQ(table.services().ListenerOf({kAlice * 100}, kFar), control::kSwitchBlock);
  EXPECT_EQ(table.services().ListenerOf({kBob * 100}, kFar), kBob);
}

// The vectors that the authors of SipHash publish, for the key 00 01 ... 0f and the messages
// 00 01 ... 07 and 00 01 ... 0f.
TEST(KeyedHashTest, IsSipHash) {
  const KeyedHash hash({0x0706'0504'0302'0100, 0x0f0e'0d0c'0b0a'0908});
  EXPECT_EQ(hash(0x0706'0504'0302'0100), 0x93f5'f579'9a93'2462u);
  Gid gid;
  std::iota(gid.bytes.begin(), gid.bytes.end(), uint8_t{0});
  EXPECT_EQ(hash(gid), 0x3f2a'cc7f'57c2'9bdbu);
}

TEST(KeyedHashTest, QpnMattersBesideTheAddress) {
  const KeyedHash hash({1, 2});
  EXPECT_NE(hash(kFar, {1}), hash(kFar, {2}));
  EXPECT_NE(hash(kFar, {1}), hash(kOtherGroup, {1}));
}

TEST(KeyedHashTest, EveryTableHasAKeyOfItsOwn) {
  EXPECT_NE(KeyedHash()(uint64_t{1}), KeyedHash()(uint64_t{1}));
}

}  // namespace
}  // namespace uroce::nic
