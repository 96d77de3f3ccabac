// Calls on descriptors of every kind: close, dup, fcntl, ioctl.

#include <fcntl.h>
#include <linux/close_range.h>
#include <rdma/rdma_user_ioctl.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <memory>

#include "dpdk_nic/base/cancellation_guard.h"
#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/fd_table.h"
#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/device/device.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"
#include "verbs_provider/virtual_kernel/uverbs/uverbs.h"

namespace uroce::verbs::virtual_kernel {
namespace {

bool IsTracked(int fd) { return FdTable::KindOf(fd) != FileKind::kNone; }

int Fail(int error) {
  errno = error;
  return -1;
}

// Tracks `copy`, which some kind of dup() made from `original`. Returns `copy`, or -1 with errno
// when it cannot be tracked.
int TrackCopy(int original, int copy) {
  if (copy < 0 || !IsTracked(original)) return copy;
  if (FdTable::Instance().InForeignProcess()) return copy;
  if (!FdTable::InRange(copy)) {
    real::close(copy);
    return Fail(EMFILE);
  }
  // The application has no business copying a private descriptor; the copy is not tracked.
  if (FdTable::KindOf(original) == FileKind::kPrivate) return copy;
  const ErrnoGuard guard;
  if (auto file = FdTable::Instance().FindAny(original)) {
    FdTable::Instance().Insert(copy, std::move(file));
  }
  return copy;
}

// dup2() and dup3() close `target` first.
template <typename Duplicate>
int DuplicateOnto(int original, int target, Duplicate duplicate) {
  if (original == target || FdTable::KindOf(target) == FileKind::kNone ||
      FdTable::Instance().InForeignProcess()) {
    const int copy = duplicate();
    return original == target ? copy : TrackCopy(original, copy);
  }
  if (FdTable::KindOf(target) == FileKind::kPrivate) return Fail(EBUSY);
  if (real::fcntl(original, F_GETFD) < 0) return -1;  // EBADF: then `target` stays as it is
  FdTable::Instance().Remove(target);
  return TrackCopy(original, duplicate());
}

// Closes [first, last] except our private descriptors.
int CloseRange(unsigned int first, unsigned int last, int flags) {
  FdTable& table = FdTable::Instance();
  for (int fd : table.TrackedIn(first, last)) {
    if (FdTable::KindOf(fd) != FileKind::kPrivate) table.Remove(fd);
  }
  // Private descriptors are left: their owner is outside the range, or still in use.
  unsigned int start = first;
  for (int fd : table.TrackedIn(first, last)) {
    const auto kept = static_cast<unsigned int>(fd);
    if (kept > start && real::close_range(start, kept - 1, flags) != 0) return -1;
    start = kept + 1;
  }
  return start > last ? 0 : real::close_range(start, last, flags);
}

}  // namespace

extern "C" {

int InterposedClose(int fd) UROCE_INTERPOSE(close);
int InterposedClose(int fd) {
  if (IsTracked(fd) && !FdTable::Instance().InForeignProcess()) {
    // A loop that closes "everything" must not take the virtual kernel's own with it.
    if (FdTable::KindOf(fd) == FileKind::kPrivate) return Fail(EBADF);
    FdTable::Instance().Remove(fd);
  }
  return real::close(fd);
}

int InterposedCloseRange(unsigned int first, unsigned int last, int flags)
    UROCE_INTERPOSE(close_range);
int InterposedCloseRange(unsigned int first, unsigned int last, int flags) {
  const bool only_marks = (flags & CLOSE_RANGE_CLOEXEC) != 0;
  if (only_marks || first > last || !FdTable::AnyTracked() ||
      FdTable::Instance().InForeignProcess()) {
    return real::close_range(first, last, flags);
  }
  return CloseRange(first, last, flags);
}

void InterposedClosefrom(int first) UROCE_INTERPOSE(closefrom);
void InterposedClosefrom(int first) {
  if (!FdTable::AnyTracked() || FdTable::Instance().InForeignProcess()) {
    real::closefrom(first);
    return;
  }
  CloseRange(first < 0 ? 0 : static_cast<unsigned int>(first), UINT_MAX, 0);
}

int InterposedDup(int fd) UROCE_INTERPOSE(dup);
int InterposedDup(int fd) { return TrackCopy(fd, real::dup(fd)); }

int InterposedDup2(int fd, int target) UROCE_INTERPOSE(dup2);
int InterposedDup2(int fd, int target) {
  return DuplicateOnto(fd, target, [&] { return real::dup2(fd, target); });
}

int InterposedDup3(int fd, int target, int flags) UROCE_INTERPOSE(dup3);
int InterposedDup3(int fd, int target, int flags) {
  return DuplicateOnto(fd, target, [&] { return real::dup3(fd, target, flags); });
}

int InterposedFcntl(int fd, int command, ...) UROCE_INTERPOSE(fcntl);
int InterposedFcntl(int fd, int command, ...) {
  // Whether there is an argument, and of which type, depends on the command; all of them arrive
  // like a pointer.
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  const int result = real::fcntl(fd, command, argument);
  const bool copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
  return copies ? TrackCopy(fd, result) : result;
}
int InterposedFcntl64(int fd, int command, ...) UROCE_INTERPOSE_ALIAS(fcntl64, fcntl);

int InterposedIoctl(int fd, unsigned long request, ...) UROCE_INTERPOSE(ioctl);
int InterposedIoctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  if (FdTable::KindOf(fd) != FileKind::kUverbs) return real::ioctl(fd, request, argument);
  if (request != RDMA_VERBS_IOCTL) return Fail(ENOTTY);
  const nic::CancellationGuard cancellation;
  const int error = UverbsIoctl(static_cast<const ib_uverbs_ioctl_hdr*>(argument),
                                CurrentDeviceAsItIs()->description);
  return error == 0 ? 0 : Fail(error);
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
