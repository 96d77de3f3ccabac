#include "dpdk_nic/control/leases.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {
namespace {

constexpr uid_t kAlice = 1'000;
constexpr uid_t kBob = 1'001;
constexpr int kNoSocket = -1;

class LeasesTest : public ::testing::Test {
 protected:
  ~LeasesTest() override {
    for (const pid_t pid : processes_) End(pid);
  }

  // Starts a process that does nothing.
  pid_t Start() {
    const pid_t pid = fork();
    if (pid == 0) {
      while (true) pause();
    }
    processes_.push_back(pid);
    return pid;
  }
  static void End(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  // Asks the kernel without the code under test.
  static bool KnowsPeerPidfd(int socket) {
    constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, which glibc 2.36 does not have
    int pidfd = -1;
    socklen_t bytes = sizeof pidfd;
    if (getsockopt(socket, SOL_SOCKET, kPeerPidfd, &pidfd, &bytes) != 0) return false;
    close(pidfd);
    return true;
  }

  boost::asio::io_context io_;
  int ends_ = 0;
  Leases leases_{io_, [this] { ++ends_; }};
  std::vector<pid_t> processes_;
};

TEST_F(LeasesTest, LeaseEndsWithItsProcess) {
  EXPECT_TRUE(leases_.empty());
  const pid_t pid = Start();
  EXPECT_EQ(leases_.Add(pid, kAlice, kNoSocket), 0);
  EXPECT_EQ(leases_.Add(pid, kAlice, kNoSocket), 0) << "a second time";
  EXPECT_FALSE(leases_.empty());
  End(pid);
  while (ends_ == 0) io_.run_one();
  EXPECT_TRUE(leases_.empty());
}

TEST_F(LeasesTest, LeaseStaysWhereItsProcessCannotBeWatchedAgain) {
  const pid_t pid = Start();
  ASSERT_EQ(leases_.Add(pid, kAlice, kNoSocket), 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit no_more = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &no_more), 0);
  EXPECT_EQ(leases_.Add(pid, kAlice, kNoSocket), EMFILE);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(leases_.empty());
}

// uroced sees pid 0 for a process in a container that shares the folder of its fabric.
TEST_F(LeasesTest, ProcessWithoutAVisiblePidIsWatchedByItsSocket) {
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socklen_t length = sizeof(sa_family_t);  // the kernel chooses an abstract name
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  length = sizeof address;
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(socket, reinterpret_cast<sockaddr*>(&address), length) != 0) _exit(1);
    while (true) pause();
  }
  processes_.push_back(pid);
  const UniqueFd peer(accept(listener.get(), nullptr, nullptr));
  if (!KnowsPeerPidfd(peer.get())) GTEST_SKIP() << "needs Linux 6.5";
  ASSERT_EQ(leases_.Add(0, kAlice, peer.get()), 0);
  EXPECT_EQ(leases_.Add(0, kBob, peer.get()), 0) << "of 0 there are several";
  End(pid);
  while (ends_ < 2) io_.run_one();
  EXPECT_TRUE(leases_.empty());
}

TEST_F(LeasesTest, ProcessInvisibleToTheDaemonIsRefused) {
  EXPECT_EQ(leases_.Add(0, kAlice, kNoSocket), ESRCH);
  EXPECT_EQ(leases_.Add(-1, kAlice, kNoSocket), ESRCH);
  const pid_t pid = Start();
  End(pid);
  EXPECT_EQ(leases_.Add(pid, kAlice, kNoSocket), ESRCH);
  EXPECT_TRUE(leases_.empty());
}

TEST_F(LeasesTest, UserHasALimit) {
  for (uint32_t i = 0; i < Leases::kMaxPerUser; ++i)
    ASSERT_EQ(leases_.Add(Start(), kAlice, kNoSocket), 0);
  EXPECT_EQ(leases_.Add(Start(), kAlice, kNoSocket), EDQUOT);
  EXPECT_EQ(leases_.Add(processes_.front(), kAlice, kNoSocket), 0) << "it has a lease already";
  EXPECT_EQ(leases_.Add(Start(), kBob, kNoSocket), 0) << "another user";
  End(processes_.front());
  while (ends_ == 0) io_.run_one();
  EXPECT_EQ(leases_.Add(Start(), kAlice, kNoSocket), 0);
}

}  // namespace
}  // namespace uroce::nic::control
