#include "dpdk_nic/control/block_claim.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

static_assert(kFirstBlock > kSwitchBlock);
static_assert((kLastBlock + 1) * transport::kMaxQps <= transport::kMulticastQpn.value);
static_assert((kLastBlock + 2) * transport::kMaxQps > transport::kMulticastQpn.value);

constexpr uid_t kDaemon = 1'234;

// A child that runs `body` and then waits for its end.
class Child {
 public:
  template <class Body>
  explicit Child(const Body& body) {
    SocketPair sockets;
    pid_ = fork();
    if (pid_ == 0) {
      body();
      const char ready = 'r';
      if (write(sockets.b.get(), &ready, 1) != 1) _exit(1);
      while (true) pause();
    }
    char ready = 0;
    EXPECT_EQ(read(sockets.a.get(), &ready, 1), 1);
  }
  ~Child() { Kill(); }

  pid_t pid() const { return pid_; }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

class BlockClaimTest : public ::testing::Test {
 protected:
  std::optional<BlockClaim> Take(Block block) { return BlockClaim::Take(kDaemon, fabric_, block); }
  pid_t Holder(Block block) { return HolderOfBlock(kDaemon, fabric_, block); }

  const std::string fabric_ = UniqueFabricName();
};

TEST_F(BlockClaimTest, ClaimIsSeenUntilItEnds) {
  EXPECT_EQ(Holder(5), kNobody);
  auto claim = Take(5);
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(claim->block(), 5u);
  EXPECT_EQ(claim->daemon_uid(), kDaemon);
  EXPECT_EQ(Holder(5), getpid());
  claim.reset();
  EXPECT_EQ(Holder(5), kNobody);
}

TEST_F(BlockClaimTest, BlockIsClaimedOnce) {
  const auto claim = Take(5);
  EXPECT_FALSE(Take(5).has_value());
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(Holder(5), getpid());
}

TEST_F(BlockClaimTest, ClaimsOfOtherFabricsAreOthers) {
  const auto claim = Take(5);
  EXPECT_EQ(Holder(6), kNobody);
  EXPECT_EQ(HolderOfBlock(kDaemon + 1, fabric_, 5), kNobody);
  EXPECT_EQ(HolderOfBlock(kDaemon, UniqueFabricName(), 5), kNobody);
}

TEST_F(BlockClaimTest, NothingIsClaimedInNoFabric) {
  EXPECT_FALSE(BlockClaim::Take(kDaemon, "a/b", 5).has_value());
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(HolderOfBlock(kDaemon, "a/b", 5), kUnknownHolder);
}

TEST_F(BlockClaimTest, ClaimOfAKilledProcessIsGone) {
  for (int round = 0; round < 20; ++round) {
    std::optional<BlockClaim> claim;
    Child child([&] { claim = Take(5); });
    ASSERT_EQ(Holder(5), child.pid());
    ASSERT_FALSE(Take(5).has_value());
    child.Kill();
    ASSERT_EQ(Holder(5), kNobody);
  }
}

TEST_F(BlockClaimTest, ForkedChildThatAbandonsItDoesNotKeepIt) {
  auto claim = Take(5);
  const Child child([&] { claim->Abandon(); });
  EXPECT_EQ(Holder(5), getpid());
  claim.reset();
  EXPECT_EQ(Holder(5), kNobody);
}

TEST_F(BlockClaimTest, ForkedChildThatDoesNotAbandonItKeepsItAsTheParents) {
  auto claim = Take(5);
  Child child([] {});
  claim.reset();
  EXPECT_EQ(Holder(5), getpid());
  child.Kill();
  EXPECT_EQ(Holder(5), kNobody);
}

TEST_F(BlockClaimTest, VisitorsAreTurnedAway) {
  auto claim = Take(5);
  EXPECT_FALSE(IsReadable(claim->fd()));
  for (int look = 0; look < 1'000; ++look) {
    ASSERT_EQ(Holder(5), getpid());
    if (look % 50 == 0) {
      EXPECT_TRUE(IsReadable(claim->fd()));
      claim->TurnAwayVisitors();
      EXPECT_FALSE(IsReadable(claim->fd()));
    }
  }
}

TEST_F(BlockClaimTest, ClaimWhoseProcessSleepsIsStillOne) {
  auto claim = Take(5);
  for (int look = 0; look < 1'000; ++look) ASSERT_NE(Holder(5), kNobody);
  EXPECT_EQ(Holder(5), kUnknownHolder);
  while (IsReadable(claim->fd())) claim->TurnAwayVisitors();
  EXPECT_EQ(Holder(5), getpid());
}

}  // namespace
}  // namespace uroce::nic::control
