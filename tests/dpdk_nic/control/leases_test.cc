#include "dpdk_nic/control/leases.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <vector>

namespace uroce::nic::control {
namespace {

constexpr uid_t kAlice = 1'000;
constexpr uid_t kBob = 1'001;

class LeasesTest : public ::testing::Test {
 protected:
  ~LeasesTest() override {
    for (const pid_t pid : processes_) End(pid);
  }

  // A process that does nothing.
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

  boost::asio::io_context io_;
  int ends_ = 0;
  Leases leases_{io_, [this] { ++ends_; }};
  std::vector<pid_t> processes_;
};

TEST_F(LeasesTest, LeaseEndsWithItsProcess) {
  EXPECT_TRUE(leases_.empty());
  const pid_t pid = Start();
  EXPECT_EQ(leases_.Add(pid, kAlice), 0);
  EXPECT_EQ(leases_.Add(pid, kAlice), 0) << "a second time";
  EXPECT_FALSE(leases_.empty());
  End(pid);
  while (ends_ == 0) io_.run_one();
  EXPECT_TRUE(leases_.empty());
}

TEST_F(LeasesTest, ProcessInvisibleToTheDaemonIsRefused) {
  EXPECT_EQ(leases_.Add(0, kAlice), ESRCH);
  EXPECT_EQ(leases_.Add(-1, kAlice), ESRCH);
  const pid_t pid = Start();
  End(pid);
  EXPECT_EQ(leases_.Add(pid, kAlice), ESRCH);
  EXPECT_TRUE(leases_.empty());
}

TEST_F(LeasesTest, UserHasALimit) {
  for (uint32_t i = 0; i < Leases::kMaxPerUser; ++i) ASSERT_EQ(leases_.Add(Start(), kAlice), 0);
  EXPECT_EQ(leases_.Add(Start(), kAlice), EDQUOT);
  EXPECT_EQ(leases_.Add(processes_.front(), kAlice), 0) << "it has a lease already";
  EXPECT_EQ(leases_.Add(Start(), kBob), 0) << "another user";
  End(processes_.front());
  while (ends_ == 0) io_.run_one();
  EXPECT_EQ(leases_.Add(Start(), kAlice), 0);
}

}  // namespace
}  // namespace uroce::nic::control
