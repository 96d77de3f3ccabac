#include "dpdk_nic/control/control_address.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/dpdk_nic/control/control_test_support.h"

namespace uroce::nic::control {
namespace {

constexpr uid_t kNobodyUid = 65'534;

// What `body` returns, run by a child that is another user.
template <class Body>
int RunAsNobody(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(setresuid(kNobodyUid, kNobodyUid, kNobodyUid) == 0 ? body() : 99);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class ControlAddressTest : public ::testing::Test {
 protected:
  // The name of root's socket, which somebody else may hold.
  std::string RootsName() const {
    const std::string block = BlockSocketName(0, fabric_, 1);
    return block.substr(0, block.find("/block/"));
  }

  const std::string fabric_ = UniqueFabricName();
};

TEST_F(ControlAddressTest, NobodyAnswersWhereNobodyListens) {
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_EQ(errno, ECONNREFUSED);
}

TEST_F(ControlAddressTest, ListenerIsFoundAndKnown) {
  const UniqueFd listener = ListenOnFabric(fabric_);
  ASSERT_TRUE(listener);
  const auto connection = ConnectToFabric(fabric_);
  ASSERT_TRUE(connection.has_value());
  EXPECT_EQ(connection->uid, geteuid());
  const UniqueFd accepted(accept(listener.get(), nullptr, nullptr));
  for (int socket : {connection->socket.get(), accepted.get()}) {
    const auto peer = PeerCredentialsOf(socket);
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->pid, getpid());
    EXPECT_EQ(peer->uid, geteuid());
    EXPECT_EQ(peer->gid, getegid());
  }
  EXPECT_EQ(write(connection->socket.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(read(accepted.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_LT(read(connection->socket.get(), &byte, 1), 0);  // it does not block
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ControlAddressTest, FabricHasOneListenerAtATime) {
  UniqueFd listener = ListenOnFabric(fabric_);
  ASSERT_TRUE(listener);
  EXPECT_FALSE(ListenOnFabric(fabric_));
  EXPECT_EQ(errno, EADDRINUSE);
  const UniqueFd other = ListenOnFabric(UniqueFabricName());
  EXPECT_TRUE(other);

  listener.reset();
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_TRUE(ListenOnFabric(fabric_));
}

TEST_F(ControlAddressTest, ListenerThatAcceptsNobodyIsBusyButThere) {
  const UniqueFd listener = ListenOnFabric(fabric_);
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const auto first = ConnectToFabric(fabric_);
  EXPECT_TRUE(first.has_value());
  EXPECT_FALSE(ConnectToFabric(fabric_).has_value());
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ControlAddressTest, OnlyNamesOfFabricsAreTaken) {
  EXPECT_TRUE(IsFabricName("default"));
  EXPECT_TRUE(IsFabricName("A-z_0.9"));
  EXPECT_TRUE(IsFabricName(std::string(kMaxNameBytes, 'x')));
  for (const std::string& name : {std::string(), std::string("a/block/1"), std::string("a b"),
                                  std::string("a\0b", 3), std::string(kMaxNameBytes + 1, 'x')}) {
    EXPECT_FALSE(IsFabricName(name)) << name;
    errno = 0;
    EXPECT_FALSE(ListenOnFabric(name));
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_FALSE(ConnectToFabric(name).has_value());
    EXPECT_EQ(errno, EINVAL);
    EXPECT_TRUE(BlockSocketName(0, name, 1).empty());
  }
}

TEST_F(ControlAddressTest, LongestNamesFit) {
  std::string name = UniqueFabricName();
  name.resize(kMaxNameBytes, 'x');
  EXPECT_TRUE(ListenOnFabric(name));
  EXPECT_TRUE(ListenOnName(BlockSocketName(0xffff'fffe, name, 1'022), 1));
  EXPECT_FALSE(ListenOnName(std::string(108, 'x'), 1));
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(ControlAddressTest, RootsListenerServesWhoHasNone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const UniqueFd listener = ListenOnFabric(fabric_);
  EXPECT_EQ(RunAsNobody([this] {
              const auto connection = ConnectToFabric(fabric_);
              return connection && connection->uid == 0 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(RunAsNobody([this] {
              const UniqueFd own = ListenOnFabric(fabric_);
              const auto connection = ConnectToFabric(fabric_);
              return connection && connection->uid == kNobodyUid ? 0 : 1;
            }),
            0);
  EXPECT_EQ(RunAsNobody([this] {
              // An own one that is too busy is not passed over.
              const UniqueFd own = ListenOnFabric(fabric_);
              listen(own.get(), 0);
              const auto first = ConnectToFabric(fabric_);
              const auto second = ConnectToFabric(fabric_);
              return first && !second && errno == EAGAIN ? 0 : 1;
            }),
            0);
  EXPECT_EQ(RunAsNobody([this] {
              return !ConnectToFabricOf(kNobodyUid, fabric_) && errno == ECONNREFUSED ? 0 : 1;
            }),
            0);
}

TEST_F(ControlAddressTest, ListenerOfAnotherUserIsNotTalkedTo) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  EXPECT_EQ(RunAsNobody([this] {
              const UniqueFd impostor = ListenOnName(RootsName(), 8);
              if (!impostor || ConnectToFabric(fabric_)) return 1;
              return errno == EPERM ? 0 : 2;
            }),
            0);
}

TEST_F(ControlAddressTest, ImpostorDoesNotKeepAUserFromRoots) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const UniqueFd roots = ListenOnFabric(fabric_);
  std::string name = BlockSocketName(kNobodyUid, fabric_, 1);
  const UniqueFd impostor = ListenOnName(name.substr(0, name.find("/block/")), 8);
  EXPECT_EQ(RunAsNobody([this] {
              const auto connection = ConnectToFabric(fabric_);
              return connection && connection->uid == 0 ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace uroce::nic::control
