// Processes of a fabric, one of which is killed at any moment. The test runs itself again as the
// process that is to be killed.

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "dpdk_nic/clock.h"
#include "dpdk_nic/unique_fd.h"
#include "tests/dpdk_nic/engine_host.h"
#include "tests/dpdk_nic/test_fabric.h"

namespace uroce::nic {
namespace {

using transport::Completion;
using transport::CompletionStatus;
using transport::SendOpcode;
using transport::Status;

constexpr char kPeerArgument[] = "--peer";
constexpr int kPeerSocket = 3;
constexpr uint8_t kTimeout = 12;  // 16 ms
constexpr uint32_t kTrafficBytes = 30'000;

// Both ends call this with a socket to the other: neither sends before both are connected.
bool Meet(EngineHost& host, int socket) {
  const ConnectionInfo own = host.info();
  ConnectionInfo peer;
  if (write(socket, &own, sizeof own) != sizeof own) return false;
  if (read(socket, &peer, sizeof peer) != sizeof peer) return false;
  host.Connect(peer, kTimeout);
  char ready = 'r';
  return write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1;
}

// Keeps writing to the peer for as long as nothing goes wrong.
class Traffic {
 public:
  explicit Traffic(EngineHost& host) : host_(host) {}

  // One step of a program that polls.
  void Run() {
    while (outstanding_ < 16 &&
           host_.Post(SendOpcode::kRdmaWrite, 0, kTrafficBytes) == Status::kOk) {
      ++outstanding_;
    }
    Completion completion;
    if (host_.cq().Poll({&completion, 1}) == 0) {
      host_.engine().TryRunOnce();
      return;
    }
    --outstanding_;
    if (completion.status == CompletionStatus::kSuccess) {
      ++written_;
    } else {
      failed_ = true;
    }
  }
  uint64_t written() const { return written_; }
  bool failed() const { return failed_; }

 private:
  EngineHost& host_;
  uint32_t outstanding_ = 0;
  uint64_t written_ = 0;
  bool failed_ = false;
};

// The process that is killed.
int RunPeer(const std::string& fabric) {
  EngineHost host(fabric);
  if (!Meet(host, kPeerSocket)) return 1;
  for (Traffic traffic(host); !traffic.failed();) traffic.Run();
  return 1;  // the test is gone
}

class PeerProcess {
 public:
  PeerProcess() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    socket_.reset(sockets[0]);
    const UniqueFd theirs(sockets[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), kPeerSocket);
    std::string program = "/proc/self/exe", argument = kPeerArgument, name = TestFabric();
    char* const argv[] = {program.data(), argument.data(), name.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~PeerProcess() { Kill(); }

  int socket() const { return socket_.get(); }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  UniqueFd socket_;
};

void RunFor(Traffic& traffic, transport::Duration duration) {
  const transport::Time end = Now() + duration;
  while (Now() < end && !traffic.failed()) traffic.Run();
}

// Traffic both ways, then the end of the peer in the middle of whatever it was doing.
void SurviveAKill(EngineHost& host, PeerProcess& peer, uint32_t seed) {
  ASSERT_TRUE(Meet(host, peer.socket()));
  memset(host.memory().data() + 500'000, static_cast<int>(seed), 10'000);
  host.Publish();
  ASSERT_EQ(host.Post(SendOpcode::kRdmaWrite, 500'000, 10'000), Status::kOk);
  ASSERT_EQ(host.Poll(1)[0].status, CompletionStatus::kSuccess);

  Traffic traffic(host);
  std::mt19937 random(seed);
  RunFor(traffic, transport::Microseconds(random() % 5'000));
  peer.Kill();
  RunFor(traffic, transport::Milliseconds(60'000));
  EXPECT_TRUE(traffic.failed()) << "there is nobody who could have answered";
  while (host.state() != transport::QpState::kError) host.engine().TryRunOnce();
  for (Completion flushed; host.cq().Poll({&flushed, 1}) == 1;) continue;
}

TEST(FabricProcessesTest, SurvivorMeetsOneProcessAfterAnother) {
  EngineHost host;
  for (uint32_t round = 0; round < 30; ++round) {
    PeerProcess peer;
    ASSERT_NO_FATAL_FAILURE(SurviveAKill(host, peer, round));
    host.ReplaceQueuePair();
  }
  EXPECT_EQ(host.engine().port_counters().receive_malformed, 0u);
}

TEST(FabricProcessesTest, SurvivorOfOneGoesOnWithTheOther) {
  EngineHost host, second;
  for (uint32_t round = 0; round < 10; ++round) {
    PeerProcess stays, leaves;
    ASSERT_TRUE(Meet(second, stays.socket()));
    ASSERT_NO_FATAL_FAILURE(SurviveAKill(host, leaves, round));
    Traffic traffic(second);
    while (traffic.written() < 100 && !traffic.failed()) traffic.Run();
    EXPECT_FALSE(traffic.failed());
    stays.Kill();
    RunFor(traffic, transport::Milliseconds(60'000));
    while (second.state() != transport::QpState::kError) second.engine().TryRunOnce();
    for (Completion flushed; second.cq().Poll({&flushed, 1}) == 1;) continue;
    host.ReplaceQueuePair();
    second.ReplaceQueuePair();
  }
}

}  // namespace
}  // namespace uroce::nic

int main(int argc, char** argv) {
  if (argc == 3 && strcmp(argv[1], uroce::nic::kPeerArgument) == 0) {
    return uroce::nic::RunPeer(argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
