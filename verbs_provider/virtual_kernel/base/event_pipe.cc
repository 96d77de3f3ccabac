#include "verbs_provider/virtual_kernel/base/event_pipe.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "verbs_provider/virtual_kernel/base/real_libc.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Each open() of a named pipe has flags of its own, as each open() of a pipe in /proc/self/fd.
std::optional<EventPipe> OpenNamedPipe(const std::string& folder, int flags) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) return std::nullopt;
  const std::string path = folder + "/uroce-pipe-" + std::to_string(number);
  if (mkfifo(path.c_str(), S_IRUSR | S_IWUSR) != 0) return std::nullopt;
  // This order never waits: only O_NONBLOCK opens a reader before there is a writer, and a writer
  // needs a reader.
  PrivateFd read_end(real::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  PrivateFd write_end(real::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  const int reader = write_end ? real::open(path.c_str(), O_RDONLY | flags) : -1;
  const int error = errno;
  unlink(path.c_str());
  errno = error;
  if (reader < 0) return std::nullopt;
  return EventPipe{std::move(read_end), std::move(write_end), reader};
}

}  // namespace

std::optional<EventPipe> OpenEventPipe(int flags) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return std::nullopt;
  EventPipe pipe{PrivateFd(ends[0]), PrivateFd(ends[1])};
  const std::string path = "/proc/self/fd/" + std::to_string(pipe.read_end.get());
  pipe.reader = real::open(path.c_str(), O_RDONLY | flags);
  if (pipe.reader >= 0) return pipe;
  if (errno != ENOENT) return std::nullopt;
  auto named = OpenNamedPipe("/tmp", flags);
  return named ? std::move(named) : OpenNamedPipe("/dev/shm", flags);
}

}  // namespace uroce::verbs::virtual_kernel
