#include "tools/cli/fabric_lease.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/control_address.h"
#include "dpdk_nic/control/lease_messages.h"
#include "dpdk_nic/control/message_channel.h"
#include "dpdk_nic/control/messages.h"

namespace uroce::cli {
namespace {

using nic::control::LeaseGranted;
using nic::control::LeaseRequest;
using nic::control::MessageChannel;
using nic::control::Refused;
using transport::Duration;
using transport::Milliseconds;
using transport::Time;

// Long enough for a uroced that is just opening its NIC.
constexpr Duration kTimeout = Milliseconds(10'000);
// A uroced that does not serve this long after its start must have failed: another one is started.
constexpr Duration kRestartInterval = Milliseconds(2'000);
constexpr useconds_t kRetry_us = 5'000;
// uroced needs so many for a few programs. Its own warning of too few would not be seen.
constexpr rlim_t kDaemonFiles = 64;
// Bounds the loop that closes descriptors one by one: a limit may be a billion.
constexpr rlim_t kMostFilesClosed = 65'536;

struct Outcome {
  enum class Kind {
    kGranted,
    kNobody,  // no uroced serves this user
    kRetry,   // the uroced that served has gone
    kFailed,
  };
  Kind kind;
  std::string problem = {};  // of kFailed
};

bool WaitReadable(int fd, Time deadline) {
  const int64_t left_ms = std::max<int64_t>(0, (deadline - nic::Now()).ns / Milliseconds(1).ns);
  pollfd poll_fd{fd, POLLIN, 0};
  return poll(&poll_fd, 1, static_cast<int>(left_ms)) == 1;
}

Outcome ConnectionFailure(const std::string& fabric) {
  switch (errno) {
    case ECONNREFUSED:
      return {Outcome::Kind::kNobody};
    default:
      return {Outcome::Kind::kFailed, nic::control::WhyNotConnected(fabric, errno)};
  }
}

// Asks the fabric's uroced for a lease.
Outcome RequestLease(const std::string& fabric, const nic::UplinkChoice& uplink, Time deadline) {
  auto connection = nic::control::ConnectToFabricWithRetry(fabric);
  if (!connection) return ConnectionFailure(fabric);
  MessageChannel channel(std::move(connection->socket));
  channel.Send(LeaseRequest{uplink.wish, uplink.address});
  MessageChannel::Incoming incoming;
  auto status = channel.Receive(incoming);
  while (status == MessageChannel::Status::kNothing && WaitReadable(channel.fd(), deadline)) {
    status = channel.Receive(incoming);
  }
  if (status != MessageChannel::Status::kOk) return {Outcome::Kind::kRetry};
  if (incoming.As<LeaseGranted>()) return {Outcome::Kind::kGranted};
  const auto refused = incoming.As<Refused>();
  if (!refused) return {Outcome::Kind::kRetry};
  // Root's uroced refuses this user; one of the user's own may serve beside it.
  if (refused->error == EACCES && connection->place.owner != geteuid())
    return {Outcome::Kind::kNobody};
  std::string sentence(refused->sentence.data(),
                       strnlen(refused->sentence.data(), refused->sentence.size()));
  return {Outcome::Kind::kFailed, std::move(sentence)};
}

// Variables for the program that is started next are not for the daemon.
bool IsOfTheProgram(std::string_view variable) {
  return variable.starts_with("LD_PRELOAD=") || variable.starts_with("UROCE_");
}

// Closes all descriptors from `first` on.
void CloseFrom(int first) {
  if (syscall(__NR_close_range, first, ~0u, 0) == 0) return;
  // Linux before 5.9, or a container that forbids the call.
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const int end = static_cast<int>(std::min<rlim_t>(files.rlim_cur, kMostFilesClosed));
  for (int fd = first; fd < end; ++fd) close(fd);
}

// In a forked child. Makes the daemon a child of init, with no descriptor or folder of ours in use.
[[noreturn]] void BecomeDaemon(char* const* argv, char* const* environment) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  if (fork() != 0) _exit(0);
  int null = open("/dev/null", O_RDWR);
  std::array<int, 2> sockets;
  // Without /dev/null: a socket whose other end is closed says nothing, either.
  if (null < 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0) null = sockets[0];
  if (null < 0) _exit(1);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, fd);
  CloseFrom(STDERR_FILENO + 1);
  if (chdir("/") == 0) execve(argv[0], argv, environment);
  _exit(1);
}

std::optional<std::string> StartDaemon(const std::string& fabric, const nic::UplinkChoice& uplink,
                                       const std::filesystem::path& daemon) {
  if (access(daemon.c_str(), X_OK) != 0) {
    return daemon.string() + " cannot be executed (" + strerror(errno) +
           "): build or install uroce anew";
  }
  if (rlimit files; getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < kDaemonFiles) {
    return "uroced may have " + std::to_string(files.rlim_max) +
           " open files here and needs more: allow it some, as with 'ulimit -n 1024'";
  }
  if (!nic::control::MakePlaceToServe()) return nic::control::WhyNotConnected(fabric, errno);
  std::vector<std::string> arguments = {daemon, "--private", "--fabric", fabric};
  if (const std::string option = uplink.OptionOfUroced(); !option.empty()) {
    arguments.push_back(option);
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!IsOfTheProgram(*variable)) variables.push_back(*variable);
  }
  variables.push_back(nullptr);

  const pid_t child = fork();
  if (child == 0) BecomeDaemon(argv.data(), variables.data());
  if (child < 0) {
    return std::string("uroced cannot be started (") + strerror(errno) +
           "): allow this user another process";
  }
  // The child ends at once. Its status is lost if our parent had us ignore SIGCHLD.
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> LeaseFabric(const std::string& fabric, const FabricUplink& uplink,
                                       const std::filesystem::path& daemon) {
  const Time deadline = nic::Now() + kTimeout;
  std::optional<Time> next_start;
  while (nic::Now() < deadline) {
    const Outcome outcome =
        RequestLease(fabric, uplink.required, nic::Now() + nic::control::kQueueTimeout);
    if (outcome.kind == Outcome::Kind::kGranted) return std::nullopt;
    if (outcome.kind == Outcome::Kind::kFailed) return outcome.problem;
    if (outcome.kind == Outcome::Kind::kNobody && (!next_start || nic::Now() >= *next_start)) {
      if (auto problem = StartDaemon(fabric, uplink.started, daemon)) return problem;
      next_start = nic::Now() + kRestartInterval;
    }
    usleep(kRetry_us);
  }
  return "uroced does not answer on fabric '" + fabric + "': see what 'uroced --fabric " + fabric +
         "' says";
}

}  // namespace uroce::cli
