#include "dpdk_nic/control/block_claim.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

static_assert(kFirstBlock > kSwitchBlock);
static_assert((kLastBlock + 1) * transport::kMaxQps <= transport::kMulticastQpn.value);
static_assert((kLastBlock + 2) * transport::kMaxQps > transport::kMulticastQpn.value);

constexpr uid_t kAlice = 1'000;
constexpr uid_t kBob = 1'001;

// A child process that runs `body` and then sleeps until it is killed.
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

class BlockClaimsTest : public ::testing::Test {
 protected:
  BlockClaimsTest() : name_(testing::TempDir() + "/" + UniqueFabricName()) {
    EXPECT_EQ(mkdir(name_.c_str(), 0700), 0);
    folder_.reset(open(name_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    claims_.emplace(folder_.get());
  }
  ~BlockClaimsTest() override { std::filesystem::remove_all(name_); }

  std::optional<uid_t> Owner(Block block) { return claims_->OwnerOf(block); }
  UniqueFd OpenFile(Block block) {
    return UniqueFd(openat(folder_.get(), std::to_string(block).c_str(), O_RDONLY | O_CLOEXEC));
  }

  const std::string name_;
  UniqueFd folder_;
  std::optional<BlockClaims> claims_;
};

TEST_F(BlockClaimsTest, ClaimIsSeenUntilItEnds) {
  EXPECT_EQ(Owner(5), std::nullopt);
  UniqueFd claim = claims_->Give(5, kAlice);
  ASSERT_TRUE(claim);
  EXPECT_EQ(Owner(5), kAlice);
  EXPECT_EQ(Owner(6), std::nullopt);
  claim.reset();
  EXPECT_EQ(Owner(5), std::nullopt);
}

TEST_F(BlockClaimsTest, BlockIsGivenOnce) {
  UniqueFd claim = claims_->Give(5, kAlice);
  EXPECT_FALSE(claims_->Give(5, kBob));
  EXPECT_EQ(errno, EWOULDBLOCK);
  EXPECT_EQ(Owner(5), kAlice);
  claim.reset();
  const UniqueFd next = claims_->Give(5, kBob);
  EXPECT_TRUE(next);
  EXPECT_EQ(Owner(5), kBob);
}

TEST_F(BlockClaimsTest, ClaimCannotBeWrittenTo) {
  const UniqueFd claim = claims_->Give(5, kAlice);
  EXPECT_EQ(fcntl(claim.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(BlockClaimsTest, ClaimProvesItsBlockToEveryUroced) {
  const UniqueFd claim = claims_->Give(5, kAlice);
  const BlockClaims next(folder_.get());
  EXPECT_TRUE(next.IsProvenBy(claim.get(), 5, kAlice));
  const UniqueFd passed_on(dup(claim.get()));
  EXPECT_TRUE(next.IsProvenBy(passed_on.get(), 5, kAlice));
  EXPECT_FALSE(next.IsProvenBy(claim.get(), 5, kBob)) << "of another user";
  EXPECT_FALSE(next.IsProvenBy(claim.get(), 6, kAlice));
  EXPECT_EQ(Owner(5), kAlice) << "looking at it changes nothing";
}

TEST_F(BlockClaimsTest, NothingElseProvesABlock) {
  const UniqueFd five = claims_->Give(5, kAlice);
  const UniqueFd six = claims_->Give(6, kAlice);
  EXPECT_FALSE(claims_->IsProvenBy(six.get(), 5, kAlice)) << "the claim of another block";
  EXPECT_FALSE(claims_->IsProvenBy(OpenFile(5).get(), 5, kAlice)) << "the file, opened again";
  EXPECT_FALSE(claims_->IsProvenBy(NumberedFd(1).get(), 5, kAlice));
  EXPECT_FALSE(claims_->IsProvenBy(-1, 5, kAlice));
  EXPECT_FALSE(claims_->IsProvenBy(folder_.get(), 5, kAlice));
  EXPECT_TRUE(claims_->IsProvenBy(five.get(), 5, kAlice));
}

TEST_F(BlockClaimsTest, UnclaimedBlockHasNoProof) {
  UniqueFd claim = claims_->Give(5, kAlice);
  ASSERT_EQ(flock(claim.get(), LOCK_UN), 0);
  EXPECT_FALSE(claims_->IsProvenBy(claim.get(), 5, kAlice));
  EXPECT_FALSE(claims_->IsProvenBy(claim.get(), kLastBlock + 1, kAlice));
}

// A block's former owner cannot disturb the present owner or be mistaken for it.
TEST_F(BlockClaimsTest, StaleClaimOfAReassignedBlockIsInvalid) {
  const UniqueFd old = claims_->Give(5, kBob);
  ASSERT_EQ(flock(old.get(), LOCK_UN), 0);
  UniqueFd claim = claims_->Give(5, kAlice);
  ASSERT_TRUE(claim);
  EXPECT_FALSE(claims_->IsProvenBy(old.get(), 5, kAlice));
  claim.reset();
  EXPECT_EQ(flock(old.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(Owner(5), std::nullopt) << "that is another file";
}

TEST_F(BlockClaimsTest, ClaimOfAKilledProcessIsGone) {
  for (int round = 0; round < 20; ++round) {
    UniqueFd claim = claims_->Give(5, kAlice);
    Child child([] {});
    claim.reset();
    ASSERT_EQ(Owner(5), kAlice);
    child.Kill();
    ASSERT_EQ(Owner(5), std::nullopt);
  }
}

TEST_F(BlockClaimsTest, ClaimOutlivesCloseInAForkedChild) {
  UniqueFd claim = claims_->Give(5, kAlice);
  const Child child([&] { claim.reset(); });
  EXPECT_EQ(Owner(5), kAlice);
  claim.reset();
  EXPECT_EQ(Owner(5), std::nullopt);
}

TEST_F(BlockClaimsTest, FilesThatAreNotUsedAreRemoved) {
  UniqueFd five = claims_->Give(5, kAlice);
  const UniqueFd six = claims_->Give(6, kAlice);
  five.reset();
  claims_->RemoveUnused();
  EXPECT_FALSE(OpenFile(5));
  EXPECT_TRUE(OpenFile(6));
  EXPECT_EQ(Owner(6), kAlice);
}

}  // namespace
}  // namespace uroce::nic::control
