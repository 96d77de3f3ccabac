#include "dpdk_nic/control/leases.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace uroce::nic::control {
namespace {

using boost::asio::posix::stream_descriptor;

}  // namespace

Leases::Leases(boost::asio::io_context& io, std::function<void()> on_end)
    : io_(io), on_end_(std::move(on_end)) {}

ErrnoValue Leases::Add(pid_t pid, uid_t uid) {
  if (pid <= 0) return ESRCH;  // in a process namespace that we do not see
  // One that holds already, or the process before it that had its number.
  leases_.erase(pid);
  const auto of_user = std::count_if(leases_.begin(), leases_.end(),
                                     [uid](const auto& entry) { return entry.second.uid == uid; });
  if (of_user >= kMaxPerUser) return EDQUOT;

  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return errno;
  Lease lease{uid, stream_descriptor(io_)};
  boost::system::error_code error;
  if (lease.pidfd.assign(pidfd, error)) {
    close(pidfd);
    return error.value();
  }
  stream_descriptor& watched = leases_.emplace(pid, std::move(lease)).first->second.pidfd;
  // Becomes readable when the process ends.
  watched.async_wait(stream_descriptor::wait_read, [this, pid](boost::system::error_code aborted) {
    if (aborted) return;
    leases_.erase(pid);
    on_end_();
  });
  return 0;
}

}  // namespace uroce::nic::control
