// How long a uroced stays that was started for somebody.
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

Server::Config Private(milliseconds first_visit_patience = milliseconds(60'000)) {
  Server::Config config;
  config.fabric.is_private = true;
  config.limits.first_visit_patience = first_visit_patience;
  return config;
}

// A process that wants uroced to stay, then becomes another program, as `uroce run` does.
class HoldingProcess {
 public:
  explicit HoldingProcess(ServerHost& host) {
    std::array<int, 2> pipe_ends;
    EXPECT_EQ(pipe2(pipe_ends.data(), O_CLOEXEC), 0);
    pid_ = host.Fork([&] { return Run(host.fabric()); });
    close(pipe_ends[1]);
    // End of file: it has executed.
    char byte;
    EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0);
    close(pipe_ends[0]);
  }
  ~HoldingProcess() { Kill(); }

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
    peer.Say(Hold{0});
    peer.Hear<Held>();
    if (!testing::Test::HasFailure()) execlp("sleep", "sleep", "1000", nullptr);
    return 1;
  }

  pid_t pid_;
};

TEST(PrivateFabricTest, LeavesWithItsHolder) {
  ServerHost host(Private());
  HoldingProcess holder(host);
  EXPECT_FALSE(host.is_deserted());
  holder.Kill();
  host.WaitUntilDeserted();
  EXPECT_FALSE(ConnectToFabric(host.fabric())) << "another one may start";
}

TEST(PrivateFabricTest, StaysForEveryHolder) {
  ServerHost host(Private());
  HoldingProcess a(host), b(host);
  a.Kill();
  Peer peer(host.fabric());
  EXPECT_NE(peer.Attach(), 0u);
  b.Kill();
  peer.Say(JoinGroup{});
  peer.Hear<GroupAnswer>();
  EXPECT_FALSE(host.is_deserted()) << "there is a client";
}

TEST(PrivateFabricTest, LeavesWithItsLastClient) {
  ServerHost host(Private());
  auto a = std::make_unique<Peer>(host.fabric());
  auto b = std::make_unique<Peer>(host.fabric());
  a->Attach();
  b->Attach();
  a.reset();
  b->Say(JoinGroup{});
  b->Hear<GroupAnswer>();
  EXPECT_FALSE(host.is_deserted());
  b.reset();
  host.WaitUntilDeserted();
}

TEST(PrivateFabricTest, HolderThatHoldsTwiceIsOne) {
  ServerHost host(Private());
  const pid_t child = host.Fork([&] {
    for (int i = 0; i < 2; ++i) {
      Peer peer(host.fabric());
      peer.Say(Hold{0});
      peer.Hear<Held>();
    }
    return testing::Test::HasFailure() ? 1 : 0;
  });
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  host.WaitUntilDeserted();
}

TEST(PrivateFabricTest, LeavesIfNobodyComes) {
  ServerHost host(Private(milliseconds(10)));
  host.WaitUntilDeserted();
}

TEST(PrivateFabricTest, WhoOnlyLooksIsNoVisit) {
  ServerHost host(Private());
  {
    Peer looking(host.fabric());
    looking.Say(StatusRequest{0});
    looking.HearAmongOthers<StatusEnd>();
  }
  HoldingProcess holder(host);
  EXPECT_FALSE(host.is_deserted());
}

TEST(PrivateFabricTest, AnyOtherFabricStays) {
  Server::Config config = Private(milliseconds(1));
  config.fabric.is_private = false;
  ServerHost host(config);
  HoldingProcess(host).Kill();
  Peer(host.fabric()).Attach();
  while (host.CountClients() > 0) usleep(1'000);
  Peer peer(host.fabric());
  EXPECT_NE(peer.Attach(), 0u);
}

}  // namespace
}  // namespace uroce::nic::control
