#include "dpdk_nic/base/memory_file.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace uroce::nic {
namespace {

sigset_t FileSizeSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGXFSZ);
  return set;
}

bool IsPending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

// Threads that raise the limit at the same time restore it under each other's feet.
constexpr int kAttempts = 100;

// Returns whether the limit in effect has become higher. Root may pass the hard limit.
bool Raise(const rlimit& limit) {
  const rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  if (setrlimit(RLIMIT_FSIZE, &none) == 0) return true;
  const rlimit hard = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  return limit.rlim_cur != limit.rlim_max && setrlimit(RLIMIT_FSIZE, &hard) == 0;
}

}  // namespace

FileSizeSignalHold::FileSizeSignalHold() : was_pending_(IsPending()) {
  const sigset_t signal = FileSizeSignal();
  pthread_sigmask(SIG_BLOCK, &signal, &blocked_before_);
}

FileSizeSignalHold::~FileSizeSignalHold() {
  const int error = errno;
  const sigset_t signal = FileSizeSignal();
  constexpr timespec kNow = {};
  if (!was_pending_ && IsPending()) sigtimedwait(&signal, nullptr, &kNow);
  pthread_sigmask(SIG_SETMASK, &blocked_before_, nullptr);
  errno = error;
}

int GrowMemoryFile(uint64_t bytes, const std::function<int()>& grow) {
  const FileSizeSignalHold hold;
  int error = grow();
  for (int attempt = 0; error == EFBIG && attempt < kAttempts; ++attempt) {
    rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    if (limit.rlim_cur >= bytes) {  // another thread has raised it
      error = grow();
      continue;
    }
    if (!Raise(limit)) return EFBIG;
    error = grow();
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  return error;
}

UniqueFd MakeMemoryFile(const char* name, uint64_t bytes) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fd;
  const int error = GrowMemoryFile(
      bytes, [&] { return ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno; });
  if (error != 0) fd.reset();
  errno = error;
  return fd;
}

std::string WhyNoSharedMemory(int error) {
  const std::string reason = strerror(error);
  switch (error) {
    case EFBIG:
      return reason +
             ": the limit on files, 'ulimit -f', also counts for it and is lower than the "
             "5 MB that a link takes, raise it";
    case EMFILE:
    case ENFILE:
      return reason + ": allow more, as with 'ulimit -n 1024'";
    case ENOMEM:
    case ENOSPC:
      return reason + ": allow this process more memory ('ulimit -v', the limit of its container)";
    default:
      return reason + ": it takes Linux 5.1 or later, and memfd_create must be allowed";
  }
}

}  // namespace uroce::nic
