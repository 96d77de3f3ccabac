// How long the uroced of a private fabric runs.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "dpdk_nic/control/server.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

using std::chrono::milliseconds;

Server::Config Private(milliseconds first_use_timeout = milliseconds(60'000)) {
  Server::Config config;
  config.fabric.is_private = true;
  config.limits.first_use_timeout = first_use_timeout;
  return config;
}

// A process that takes a lease and then executes another program, as `uroce run` does.
class LeasingProcess {
 public:
  explicit LeasingProcess(ServerHost& host) {
    std::array<int, 2> pipe_ends;
    EXPECT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
    pid_ = host.Fork([&] { return Run(host.fabric()); });
    close(pipe_ends[1]);
    // End of file: the child has called exec.
    char byte;
    EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
    close(pipe_ends[0]);
  }
  ~LeasingProcess() { Kill(); }

  pid_t pid() const { return pid_; }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  static int Run(const std::string& fabric) {
    Peer peer(fabric);
    peer.Say(LeaseRequest{});
    peer.Hear<LeaseGranted>();
    if (!testing::Test::HasFailure()) execlp("sleep", "sleep", "1000", nullptr);
    return 1;
  }

  pid_t pid_;
};

TEST(PrivateFabricTest, StopsWhenItsOnlyLeaseEnds) {
  ServerHost host(Private());
  LeasingProcess leasing(host);
  EXPECT_FALSE(host.is_stopped());
  leasing.Kill();
  host.WaitUntilStopped();
  EXPECT_FALSE(ConnectToFabric(host.fabric())) << "another one may start";
}

TEST(PrivateFabricTest, RunsAsLongAsAnyLease) {
  ServerHost host(Private());
  LeasingProcess a(host), b(host);
  a.Kill();
  Peer peer(host.fabric());
  EXPECT_NE(peer.Attach(), 0u);
  b.Kill();
  peer.Say(JoinGroup{});
  peer.Hear<GroupAnswer>();
  EXPECT_FALSE(host.is_stopped()) << "there is a client";
}

TEST(PrivateFabricTest, StopsWithItsLastClient) {
  ServerHost host(Private());
  auto a = std::make_unique<Peer>(host.fabric());
  auto b = std::make_unique<Peer>(host.fabric());
  a->Attach();
  b->Attach();
  a.reset();
  b->Say(JoinGroup{});
  b->Hear<GroupAnswer>();
  EXPECT_FALSE(host.is_stopped());
  b.reset();
  host.WaitUntilStopped();
}

TEST(PrivateFabricTest, SecondLeaseOfAProcessIsTheSame) {
  ServerHost host(Private());
  const pid_t child = host.Fork([&] {
    for (int i = 0; i < 2; ++i) {
      Peer peer(host.fabric());
      peer.Say(LeaseRequest{});
      peer.Hear<LeaseGranted>();
    }
    return testing::Test::HasFailure() ? 1 : 0;
  });
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  host.WaitUntilStopped();
}

TEST(PrivateFabricTest, StopsWithoutAFirstClient) {
  ServerHost host(Private(milliseconds(10)));
  host.WaitUntilStopped();
  EXPECT_FALSE(ConnectToFabric(host.fabric())) << "another one may start";
}

TEST(PrivateFabricTest, StatusRequestIsNoFirstUse) {
  ServerHost host(Private());
  {
    Peer looking(host.fabric());
    looking.Say(StatusRequest{0});
    looking.HearAmongOthers<StatusEnd>();
  }
  LeasingProcess leasing(host);
  EXPECT_FALSE(host.is_stopped());
}

TEST(PrivateFabricTest, AnyOtherFabricStays) {
  Server::Config config = Private(milliseconds(1));
  config.fabric.is_private = false;
  ServerHost host(config);
  LeasingProcess(host).Kill();
  Peer(host.fabric()).Attach();
  while (host.CountClients() > 0) usleep(1'000);
  Peer peer(host.fabric());
  EXPECT_NE(peer.Attach(), 0u);
}

}  // namespace
}  // namespace uroce::nic::control
