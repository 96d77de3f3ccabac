#include "dpdk_nic/base/log.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::nic {
namespace {

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kLevels = {
    {{"off", LogLevel::kOff},
     {"error", LogLevel::kError},
     {"warning", LogLevel::kWarning},
     {"info", LogLevel::kInfo},
     {"debug", LogLevel::kDebug}}};

const char* program_name = "uroce";
LogLevel default_limit = LogLevel::kWarning;

bool Write(std::string_view sentence) {
  const CancellationGuard guard;
  std::string line(program_name);
  line.append(": ").append(sentence).append(".\n");
  const iovec part{line.data(), line.size()};
  if (pwritev2(STDERR_FILENO, &part, 1, -1, RWF_NOWAIT) >= 0) return true;
  const int error = errno;
  // Some file systems and terminals refuse RWF_NOWAIT. A regular file never waits for a reader.
  struct stat status {};
  const bool is_file = fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  if (!is_file && error != EOPNOTSUPP) return false;
  pollfd poll_fd{STDERR_FILENO, POLLOUT, 0};
  return poll(&poll_fd, 1, 0) == 1 && write(STDERR_FILENO, line.data(), line.size()) >= 0;
}

LogLevel ReadLimit() {
  const char* const text = std::getenv("UROCE_LOG");
  if (text == nullptr || *text == '\0') return default_limit;
  if (const auto level = ParseLogLevel(text)) return *level;
  Write("UROCE_LOG is '" + std::string(text) + "': set it to off, error, warning, info or debug");
  return default_limit;
}

LogLevel Limit() {
  static const LogLevel limit = ReadLimit();
  return limit;
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  for (const auto& [known, level] : kLevels) {
    if (name == known) return level;
  }
  return std::nullopt;
}

void NameLog(const char* program, LogLevel limit) {
  program_name = program;
  default_limit = limit;
}

bool Logs(LogLevel level) { return level <= Limit(); }

bool Log(LogLevel level, std::string_view sentence) { return !Logs(level) || Write(sentence); }

}  // namespace uroce::nic
