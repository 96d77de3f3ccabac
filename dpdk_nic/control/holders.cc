#include "dpdk_nic/control/holders.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace uroce::nic::control {
namespace {

using boost::asio::posix::stream_descriptor;

}  // namespace

Holders::Holders(boost::asio::io_context& io, std::function<void()> on_end)
    : io_(io), on_end_(std::move(on_end)) {}

ErrnoValue Holders::Add(pid_t pid, uid_t uid) {
  if (pid <= 0) return ESRCH;  // in a process namespace that we do not see
  // One that holds already, or the process before it that had its number.
  holders_.erase(pid);
  const auto of_user = std::count_if(holders_.begin(), holders_.end(),
                                     [uid](const auto& entry) { return entry.second.uid == uid; });
  if (of_user >= kMaxPerUser) return EDQUOT;

  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return errno;
  Holder holder{uid, stream_descriptor(io_)};
  boost::system::error_code error;
  if (holder.pidfd.assign(pidfd, error)) {
    close(pidfd);
    return error.value();
  }
  stream_descriptor& watched = holders_.emplace(pid, std::move(holder)).first->second.pidfd;
  // Becomes readable when the process ends.
  watched.async_wait(stream_descriptor::wait_read, [this, pid](boost::system::error_code aborted) {
    if (aborted) return;
    holders_.erase(pid);
    on_end_();
  });
  return 0;
}

}  // namespace uroce::nic::control
