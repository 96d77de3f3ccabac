#include "dpdk_nic/control/leases.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {
namespace {

using boost::asio::posix::stream_descriptor;

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

// Invalid with errno.
UniqueFd OpenPidfd(pid_t pid, int socket) {
  if (pid > 0) return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  int pidfd = -1;
  socklen_t bytes = sizeof pidfd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0) return UniqueFd(pidfd);
  errno = ESRCH;
  return {};
}

}  // namespace

Leases::Leases(boost::asio::io_context& io, std::function<void()> on_end)
    : io_(io), on_end_(std::move(on_end)) {}

ErrnoValue Leases::Add(pid_t pid, uid_t uid, int socket) {
  UniqueFd pidfd = OpenPidfd(pid, socket);
  if (!pidfd) return errno;
  Lease lease{uid, stream_descriptor(io_)};
  boost::system::error_code error;
  if (lease.pidfd.assign(pidfd.get(), error)) return error.value();
  pidfd.release();
  // Replaces the lease that the process has already, or that of an earlier process with its pid.
  if (pid > 0) leases_.erase(pid);
  const auto of_user = std::count_if(leases_.begin(), leases_.end(),
                                     [uid](const auto& entry) { return entry.second.uid == uid; });
  if (of_user >= kMaxPerUser) return EDQUOT;
  const auto entry = leases_.emplace(pid, std::move(lease));
  // Becomes readable when the process ends.
  entry->second.pidfd.async_wait(stream_descriptor::wait_read,
                                 [this, entry](boost::system::error_code aborted) {
                                   if (aborted) return;
                                   leases_.erase(entry);
                                   on_end_();
                                 });
  return 0;
}

}  // namespace uroce::nic::control
