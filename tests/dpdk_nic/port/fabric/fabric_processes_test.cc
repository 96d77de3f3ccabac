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

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/unique_fd.h"
#include "tests/dpdk_nic/engine/engine_host.h"
#include "tests/dpdk_nic/port/fabric/test_fabric.h"

namespace uroce::nic {
namespace {

using transport::Completion;
using transport::CompletionStatus;
using transport::SendOpcode;
using transport::Status;

constexpr char kPeerArgument[] = "--peer";
constexpr int kPeerSocket = 3;
constexpr uint8_t kShortTimeout = 12;  // 0.1 s with all retries, to notice a death soon
constexpr uint32_t kTrafficBytes = 30'000;

// Both ends call this with a socket to the other: neither sends before both are connected.
bool Connect(EngineHost& host, int socket, uint8_t timeout) {
  const ConnectionInfo own = host.info();
  ConnectionInfo peer;
  if (write(socket, &own, sizeof own) != sizeof own) return false;
  if (read(socket, &peer, sizeof peer) != sizeof peer) return false;
  host.Connect(peer, timeout);
  char ready = 'r';
  return write(socket, &ready, 1) == 1 && read(socket, &ready, 1) == 1;
}

// One engine with two connections to the same peer. The impatient one takes a peer for dead that
// gets no processor for a while.
struct Host {
  explicit Host(const std::string& fabric = TestFabric())
      : patient(fabric), impatient(patient.engine()) {}

  bool Meet(int socket) {
    return Connect(patient, socket, /*timeout=*/0) && Connect(impatient, socket, kShortTimeout);
  }
  // Makes the queue pairs anew for the next peer.
  void Part() {
    for (EngineHost* host : {&patient, &impatient}) {
      host->ReplaceQueuePair();
      for (Completion old; host->cq().Poll({&old, 1}) == 1;) continue;
    }
  }

  EngineHost patient;
  EngineHost impatient;
};

// Keeps writing to the peer until a write fails.
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
  Host host(fabric);
  if (!host.Meet(kPeerSocket)) return 1;
  for (Traffic traffic(host.impatient); !traffic.failed();) traffic.Run();
  char byte;
  return read(kPeerSocket, &byte, 1) == 0 ? 0 : 1;  // until the test process ends
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

// Runs traffic both ways, then kills the peer at a random moment.
void SurviveAKill(Host& host, PeerProcess& peer, uint32_t seed) {
  ASSERT_TRUE(host.Meet(peer.socket()));
  ASSERT_EQ(host.patient.Post(SendOpcode::kRdmaWrite, 500'000, 10'000), Status::kOk);
  ASSERT_EQ(host.patient.Poll(1)[0].status, CompletionStatus::kSuccess);

  Traffic traffic(host.impatient);
  std::mt19937 random(seed);
  RunFor(traffic, transport::Microseconds(random() % 5'000));
  peer.Kill();
  RunFor(traffic, transport::Milliseconds(60'000));
  EXPECT_TRUE(traffic.failed()) << "no process could have answered";
  while (host.impatient.state() != transport::QpState::kError) host.impatient.engine().TryRunOnce();
  host.Part();
}

TEST(FabricProcessesTest, SurvivorMeetsOneProcessAfterAnother) {
  Host host;
  for (uint32_t round = 0; round < 30; ++round) {
    PeerProcess peer;
    ASSERT_NO_FATAL_FAILURE(SurviveAKill(host, peer, round));
  }
  EXPECT_EQ(host.patient.engine().port_counters().receive_malformed, 0u);
}

TEST(FabricProcessesTest, SurvivorOfOneGoesOnWithTheOther) {
  Host host, second;
  for (uint32_t round = 0; round < 10; ++round) {
    PeerProcess stays, leaves;
    ASSERT_TRUE(second.Meet(stays.socket()));
    ASSERT_NO_FATAL_FAILURE(SurviveAKill(host, leaves, round));
    Traffic traffic(second.patient);
    while (traffic.written() < 100 && !traffic.failed()) traffic.Run();
    EXPECT_FALSE(traffic.failed());
    stays.Kill();
    second.Part();
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
