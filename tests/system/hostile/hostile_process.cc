#include "tests/system/hostile/hostile_process.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tests/system/hostile/attacks.h"

namespace uroce::nic {
namespace {

constexpr char kArgument[] = "--hostile";
constexpr int kReportFd = 3;
constexpr char kRound = 'r';
constexpr char kSucceeded = 's';
constexpr int kTimeout_ms = 120'000;

// Reports of rounds are dropped while the reader is behind.
void Report(char what) {
  const int flags = MSG_NOSIGNAL | (what == kRound ? MSG_DONTWAIT : 0);
  if (send(kReportFd, &what, 1, flags) < 0 && errno != EAGAIN) _exit(0);
}

}  // namespace

void HostileProcess::RunIfAsked(int argc, char** argv) {
  if (argc != 5 || std::string(argv[1]) != kArgument) return;
  Attack(argv[2], {.fabric = argv[3],
                   .block = static_cast<control::Block>(std::stoul(argv[4])),
                   .round = [] { Report(kRound); },
                   .succeeded =
                       [](const char* what) {
                         std::fprintf(stderr, "the attack made %s\n", what);
                         Report(kSucceeded);
                       }});
}

HostileProcess::HostileProcess(const std::string& attack, const std::string& fabric,
                               control::Block victim) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return;
  reports_.reset(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kReportFd);
  std::string program = "/proc/self/exe", flag = kArgument, name = attack, where = fabric;
  std::string block = std::to_string(victim);
  char* const argv[] = {program.data(), flag.data(),  name.data(),
                        where.data(),   block.data(), nullptr};
  if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ) != 0) pid_ = 0;
  posix_spawn_file_actions_destroy(&actions);
}

HostileProcess::~HostileProcess() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool HostileProcess::AwaitRounds(size_t rounds) {
  char buffer[256];
  while (rounds > 0) {
    pollfd poll_fd{reports_.get(), POLLIN, 0};
    if (poll(&poll_fd, 1, kTimeout_ms) != 1) {
      std::fprintf(stderr, "the attack does not go on\n");
      return false;
    }
    const ssize_t count = read(reports_.get(), buffer, std::min(rounds, sizeof buffer));
    if (count <= 0) {
      std::fprintf(stderr, "the hostile process has ended\n");
      return false;
    }
    if (std::count(buffer, buffer + count, kSucceeded) != 0) return false;
    rounds -= static_cast<size_t>(count);
  }
  return true;
}

void HostileProcess::PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(pid_, sizeof one, &one);
}

}  // namespace uroce::nic
