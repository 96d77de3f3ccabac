// The clients of a fabric and their links, in virtual time.
#include "dpdk_nic/control/registry.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>
#include <set>

namespace uroce::nic::control {
namespace {

using transport::Milliseconds;
using transport::Time;

constexpr pid_t kPid = 100;
constexpr uid_t kAlice = 1'000;
constexpr uid_t kBob = 1'001;

class RegistryTest : public testing::Test {
 protected:
  Registry MakeRegistry(Registry::Limits limits = {}, uint64_t random = 0) {
    return Registry(
        limits,
        [this](Block block) {
          ++claims_looked_at_;
          const auto claim = claims_.find(block);
          return claim == claims_.end() ? std::nullopt : std::optional(claim->second);
        },
        random);
  }

  // Attaches a new process, which also takes its claim.
  Block Attach(Registry& registry, uid_t uid = kAlice) {
    const auto admission = registry.Attach(now_, kPid, uid, 0);
    EXPECT_EQ(admission.error, 0);
    EXPECT_GE(admission.block, kFirstBlock);
    EXPECT_LE(admission.block, kLastBlock);
    return admission.block;
  }
  // Attaches a client whose QPNs peers know, as it has a link.
  Block AttachAndLink(Registry& registry) {
    const Block block = Attach(registry);
    registry.AddLink(now_, block, kSwitchBlock);
    return block;
  }

  std::map<Block, uid_t> claims_;
  int claims_looked_at_ = 0;
  Time now_{5'000'000'000};
};

TEST_F(RegistryTest, BlocksAreGivenOutInTurn) {
  Registry registry = MakeRegistry();
  EXPECT_EQ(Attach(registry), 1u);
  EXPECT_EQ(Attach(registry), 2u);
  registry.Detach(now_, 1);
  EXPECT_EQ(Attach(registry), 3u) << "not the one that was given back just now";
  EXPECT_EQ(registry.clients().size(), 2u);
  EXPECT_EQ(registry.clients().at(3).pid, kPid);
  EXPECT_EQ(registry.clients().at(3).uid, kAlice);
  EXPECT_EQ(registry.clients().at(3).attached_at, now_);
}

TEST_F(RegistryTest, RandomNumberDecidesTheFirstBlock) {
  Registry last = MakeRegistry({}, kMaxClients - 1);
  EXPECT_EQ(Attach(last), kLastBlock);
  EXPECT_EQ(Attach(last), kFirstBlock) << "after the last comes the first";
  Registry around = MakeRegistry({}, 3 * uint64_t{kMaxClients} + 6);
  EXPECT_EQ(Attach(around), 7u);
}

TEST_F(RegistryTest, AttachFailsWhenEveryBlockIsInUse) {
  Registry registry = MakeRegistry({.clients_per_user = kMaxClients});
  std::set<Block> blocks;
  for (uint32_t i = 0; i < kMaxClients; ++i) blocks.insert(Attach(registry));
  EXPECT_EQ(blocks.size(), 1'022u);
  EXPECT_EQ(registry.Attach(now_, kPid, kBob, 0).error, ENOSPC);
  registry.Detach(now_, 500);
  EXPECT_EQ(Attach(registry, kBob), 500u);
}

TEST_F(RegistryTest, UserHasAShareOfTheBlocks) {
  Registry registry = MakeRegistry({.clients_per_user = 3});
  const Block first = Attach(registry);
  Attach(registry);
  Attach(registry);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  Attach(registry, kBob);
  registry.Detach(now_, first);
  Attach(registry);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
}

TEST_F(RegistryTest, UsersHaveAQuotaByDefault) {
  Registry registry = MakeRegistry();
  for (int i = 0; i < 512; ++i) Attach(registry);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  for (int i = 0; i < 510; ++i) Attach(registry, kBob);
  EXPECT_EQ(registry.Attach(now_, kPid, kBob, 0).error, ENOSPC);
}

TEST_F(RegistryTest, BlockOfADeadProcessIsQuarantined) {
  Registry registry = MakeRegistry({.clients_per_user = kMaxClients});
  for (uint32_t i = 0; i < kMaxClients; ++i) AttachAndLink(registry);
  registry.Detach(now_, 77);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
  now_ = now_ + Milliseconds(59'999);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
  now_ = now_ + Milliseconds(1);
  EXPECT_EQ(Attach(registry), 77u);
}

TEST_F(RegistryTest, BlockThatWasOfferedALinkIsQuarantined) {
  Registry registry = MakeRegistry({.clients_per_user = kMaxClients});
  for (uint32_t i = 0; i < kMaxClients; ++i) Attach(registry);
  registry.AddLink(now_, 8, 9);
  registry.Detach(now_, 9);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
}

TEST_F(RegistryTest, ProcessThatOnlyLookedAtTheDeviceLeavesNothingBehind) {
  Registry registry = MakeRegistry();
  for (uint32_t i = 0; i < 3 * kMaxClients; ++i) registry.Detach(now_, Attach(registry));
  EXPECT_TRUE(registry.clients().empty());
}

TEST_F(RegistryTest, ClaimedBlocksAreSkipped) {
  claims_ = {{1, kAlice}, {2, kBob}, {4, kBob}};
  Registry registry = MakeRegistry();
  EXPECT_EQ(Attach(registry), 3u);
  EXPECT_EQ(Attach(registry), 5u);
}

TEST_F(RegistryTest, ClaimsAreLookedAtOnceAMinute) {
  for (Block block = kFirstBlock; block <= kLastBlock; ++block) claims_[block] = kBob;
  Registry registry = MakeRegistry();
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
  EXPECT_EQ(claims_looked_at_, static_cast<int>(kMaxClients));
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
  EXPECT_LE(claims_looked_at_, static_cast<int>(kMaxClients) + 10) << "but for a few of them";
  claims_.clear();
  now_ = now_ + Registry::kQuarantine;
  Attach(registry);
}

TEST_F(RegistryTest, ProcessResumesTheBlockItHolds) {
  claims_ = {{42, kAlice}};
  Registry registry = MakeRegistry();
  const auto admission = registry.Attach(now_, kPid, kAlice, 42);
  EXPECT_EQ(admission.error, 0);
  EXPECT_EQ(admission.block, 42u);
  EXPECT_EQ(registry.clients().at(42).pid, kPid);
}

TEST_F(RegistryTest, BlockIsResumedOutOfQuarantine) {
  Registry registry = MakeRegistry();
  const Block block = AttachAndLink(registry);
  claims_ = {{block, kAlice}};
  registry.Detach(now_, block);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, block).block, block);
}

TEST_F(RegistryTest, ResumedBlockIsQuarantinedAsItWasLinkedBefore) {
  claims_ = {{1, kAlice}};
  Registry registry = MakeRegistry({.clients_per_user = kMaxClients});
  ASSERT_EQ(registry.Attach(now_, kPid, kAlice, 1).error, 0);
  for (uint32_t i = 1; i < kMaxClients; ++i) Attach(registry);
  claims_.clear();
  registry.Detach(now_, 1);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, ENOSPC);
}

TEST_F(RegistryTest, OnlyABlockOfAProcessIsResumedAndOnce) {
  Registry registry = MakeRegistry();
  for (const Block block : {kLastBlock + 1, 0xffff'ffffu}) {
    EXPECT_EQ(registry.Attach(now_, kPid, kAlice, block).error, ESTALE) << block;
  }
  ASSERT_EQ(registry.Attach(now_, kPid, kAlice, 7).error, 0);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 7).error, ESTALE) << "it is on the fabric already";
  EXPECT_EQ(registry.clients().size(), 1u);
}

TEST_F(RegistryTest, QuotaCountsResumedProcesses) {
  Registry registry = MakeRegistry({.clients_per_user = 1});
  ASSERT_EQ(registry.Attach(now_, kPid, kAlice, 42).error, 0);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
}

TEST_F(RegistryTest, QuotaCountsBlocksWhoseProcessesHungUp) {
  Registry registry = MakeRegistry({.clients_per_user = 2});
  for (const Block block : {1u, 2u}) {
    EXPECT_EQ(Attach(registry), block);
    claims_[block] = kAlice;  // The process keeps its claim
    registry.Detach(now_, block);
  }
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  EXPECT_EQ(Attach(registry, kBob), 3u);
  claims_.erase(1);
  EXPECT_EQ(Attach(registry), 4u);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  ASSERT_EQ(registry.Attach(now_, kPid, kAlice, 2).error, 0) << "it has been counted";
}

TEST_F(RegistryTest, QuotaCountsBlocksThatANewUrocedFindsTaken) {
  claims_ = {{1, kAlice}, {2, kAlice}};
  Registry registry = MakeRegistry({.clients_per_user = 2});
  EXPECT_EQ(Attach(registry, kBob), 3u);
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
}

TEST_F(RegistryTest, UserWithTooManyIsCountedAgainOnceASecond) {
  constexpr uint32_t kMany = 100;
  Registry registry = MakeRegistry({.clients_per_user = kMany});
  for (uint32_t i = 0; i < kMany; ++i) {
    const Block block = Attach(registry);
    claims_[block] = kAlice;
    registry.Detach(now_, block);
  }
  EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  claims_looked_at_ = 0;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(registry.Attach(now_, kPid, kAlice, 0).error, EDQUOT);
  }
  EXPECT_LE(claims_looked_at_, 40);
  now_ = now_ + Milliseconds(1'000);
  claims_.clear();
  Attach(registry);
}

TEST_F(RegistryTest, DetachingAnUnknownBlockDoesNothing) {
  Registry registry = MakeRegistry();
  const Block block = Attach(registry);
  registry.Detach(now_, block + 1);
  registry.Detach(now_, 0);
  EXPECT_EQ(registry.clients().size(), 1u);
}

class RegistryLinkTest : public RegistryTest {
 protected:
  RegistryLinkTest() {
    for (int i = 0; i < 4; ++i) Attach(registry_);
  }
  // `asker` has received every offer that was sent to it.
  ErrnoValue Link(Block asker, Block other) {
    return LinkAfter(registry_.clients().at(asker).offers_sent, asker, other);
  }
  ErrnoValue LinkAfter(uint32_t offers_received, Block asker, Block other) {
    const ErrnoValue error = registry_.MayLink(now_, asker, other, offers_received);
    if (error == 0) registry_.AddLink(now_, asker, other);
    return error;
  }
  size_t links() const { return registry_.links().size(); }

  Registry registry_ = MakeRegistry({.links_per_client = 2});
};

TEST_F(RegistryLinkTest, LinkIsRememberedByPair) {
  EXPECT_EQ(Link(2, 1), 0);
  EXPECT_EQ(Link(1, 3), 0);
  ASSERT_EQ(links(), 2u);
  EXPECT_EQ(registry_.links().at({1, 2}).asker, 2u);
  EXPECT_EQ(registry_.links().at({1, 3}).asker, 1u);
  EXPECT_EQ(registry_.clients().at(2).links_asked_for, 1u);
}

TEST_F(RegistryLinkTest, LinkToAnInvalidPeerIsRefused) {
  EXPECT_EQ(Link(1, 1), EINVAL);
  EXPECT_EQ(Link(1, 5), EHOSTUNREACH);
  EXPECT_EQ(Link(1, 0xffff'ffff), EHOSTUNREACH);
  EXPECT_EQ(links(), 0u);
}

TEST_F(RegistryLinkTest, BlockWithoutARecentOwnerIsUnknown) {
  EXPECT_EQ(Link(2, 1), 0);
  EXPECT_FALSE(registry_.IsUnknown(now_, 1));
  EXPECT_FALSE(registry_.IsUnknown(now_, kSwitchBlock));
  EXPECT_TRUE(registry_.IsUnknown(now_, 5));
  EXPECT_FALSE(registry_.IsUnknown(now_, 0xffff'ffff)) << "no block";
  claims_[5] = kAlice;
  EXPECT_FALSE(registry_.IsUnknown(now_, 5)) << "it has not come back to this uroced";
  registry_.Detach(now_, 1);
  EXPECT_FALSE(registry_.IsUnknown(now_ + Registry::kQuarantine * 2, 1)) << "its claim may live";
}

TEST_F(RegistryLinkTest, RequestThatCrossedAnOfferIsNotPassedOn) {
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(0, 2, 1), EALREADY);
  EXPECT_EQ(LinkAfter(0, 2, 1), EALREADY) << "as long as it has not received the offer";
  EXPECT_EQ(registry_.links().at({1, 2}).asker, 1u);
}

TEST_F(RegistryLinkTest, ReceiverOfAnOfferMayAskAgain) {
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(1, 2, 1), 0) << "it has lost the link that the other had asked for";
  EXPECT_EQ(registry_.links().at({1, 2}).asker, 2u);
  EXPECT_EQ(registry_.clients().at(1).links_asked_for, 0u);
  EXPECT_EQ(registry_.clients().at(2).links_asked_for, 1u);
  EXPECT_EQ(LinkAfter(0, 1, 2), EALREADY);
  EXPECT_EQ(LinkAfter(1, 1, 2), 0);
  EXPECT_EQ(links(), 1u);
}

TEST_F(RegistryLinkTest, AskerOfALinkMayAskAgain) {
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(1, 2, 1), EALREADY) << "it has received the first offer only";
  EXPECT_EQ(registry_.clients().at(1).links_asked_for, 1u);
}

TEST_F(RegistryLinkTest, OffersOfOtherPairsDoNotCross) {
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(0, 3, 2), 0);
  EXPECT_EQ(LinkAfter(1, 2, 1), 0) << "the one of 3 is under way";
  EXPECT_EQ(LinkAfter(1, 2, 3), EALREADY);
}

TEST_F(RegistryLinkTest, NumbersOfOffersMayWrap) {
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  EXPECT_EQ(LinkAfter(0xffff'fff0, 2, 1), EALREADY);
  EXPECT_EQ(LinkAfter(0x7fff'ffff, 2, 1), 0);
}

TEST_F(RegistryLinkTest, LinksAreChargedToTheAskingClient) {
  EXPECT_EQ(Link(1, 2), 0);
  EXPECT_EQ(Link(1, kSwitchBlock), 0);
  EXPECT_EQ(Link(1, 3), ENOSPC);
  EXPECT_EQ(Link(1, 2), 0) << "anew, in place of the first";
  EXPECT_EQ(Link(3, 1), 0) << "the memory of another";
  EXPECT_EQ(links(), 3u);
  registry_.Detach(now_, 2);
  EXPECT_EQ(Link(1, 4), 0);
  EXPECT_EQ(Link(1, 3), ENOSPC) << "it would be charged for it now";
  EXPECT_EQ(registry_.links().at({1, 3}).asker, 3u);
}

TEST_F(RegistryLinkTest, OffersToOneProcessAreLimited) {
  constexpr transport::Duration kInterval = Registry::Limits{}.offer_interval;
  for (uint32_t i = 0; i < Registry::Limits{}.offers_at_once; ++i) EXPECT_EQ(Link(1, 2), 0) << i;
  EXPECT_EQ(Link(1, 2), EAGAIN);
  EXPECT_EQ(Link(1, 3), 0) << "to another";
  EXPECT_EQ(Link(4, 2), 0) << "of another";
  EXPECT_EQ(Link(2, 1), 0) << "the other way";
  now_ = now_ + kInterval;
  EXPECT_EQ(Link(1, 2), 0) << "earned";
  EXPECT_EQ(Link(1, 2), EAGAIN);
  now_ = now_ + kInterval * 1'000;
  for (uint32_t i = 0; i < Registry::Limits{}.offers_at_once; ++i) EXPECT_EQ(Link(1, 2), 0) << i;
  EXPECT_EQ(Link(1, 2), EAGAIN) << "no more than that are saved up";
}

TEST_F(RegistryLinkTest, NewProcessWithTheSameBlockIsNotChargedForOffersOfTheLast) {
  while (Link(1, 2) == 0) {
  }
  registry_.Detach(now_, 1);
  claims_[1] = kPid;
  ASSERT_EQ(registry_.Attach(now_, kPid, kAlice, 1).error, 0);
  EXPECT_EQ(Link(1, 2), 0);
}

TEST_F(RegistryLinkTest, LinkIsForgottenWithEitherProcess) {
  EXPECT_EQ(Link(1, 2), 0);
  EXPECT_EQ(Link(3, 1), 0);
  EXPECT_EQ(Link(2, 3), 0);
  EXPECT_EQ(Link(1, kSwitchBlock), 0);
  registry_.Detach(now_, 1);
  EXPECT_EQ(links(), 1u);
  EXPECT_EQ(registry_.clients().at(3).links_asked_for, 0u);
  EXPECT_EQ(Link(2, 1), EHOSTUNREACH);
  registry_.Detach(now_, 3);
  EXPECT_EQ(links(), 0u);
  EXPECT_EQ(registry_.clients().at(2).links_asked_for, 0u);
}

TEST_F(RegistryLinkTest, OffersAreCountedAnewForAProcessThatComesBack) {
  claims_ = {{2, kAlice}};
  EXPECT_EQ(LinkAfter(0, 1, 2), 0);
  registry_.Detach(now_, 2);
  ASSERT_EQ(registry_.Attach(now_, kPid, kAlice, 2).error, 0);
  EXPECT_EQ(LinkAfter(0, 2, 1), 0) << "nothing is left of the pair";
  EXPECT_EQ(LinkAfter(0, 3, 2), 0);
  EXPECT_EQ(LinkAfter(1, 2, 3), 0);
}

}  // namespace
}  // namespace uroce::nic::control
