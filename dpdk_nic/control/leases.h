#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>

#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Leases of a private fabric: uroced runs as long as a process has a lease, client or not.
// Processes are watched by pidfds, so a lease survives exec.
class Leases {
 public:
  // Half of the number of clients that there can be.
  static constexpr uint32_t kMaxPerUser = 512;

  // `on_end` is called after each end of a process with a lease.
  Leases(boost::asio::io_context& io, std::function<void()> on_end);

  // Gives a lease to a process, which has to be alive. `pid` and `uid`: the kernel's for the peer
  // of `socket`; the pid is 0 in a process namespace that we do not see. 0, also if the process has
  // a lease. EDQUOT: its user has too many. Otherwise why the process cannot be watched: ESRCH if
  // its pid is not visible from here, and the kernel is older than Linux 6.5.
  ErrnoValue Add(pid_t pid, uid_t uid, int socket);

  bool empty() const { return leases_.empty(); }

 private:
  struct Lease {
    uid_t uid;
    boost::asio::posix::stream_descriptor pidfd;
  };

  boost::asio::io_context& io_;
  const std::function<void()> on_end_;
  using Entries = std::multimap<pid_t, Lease>;  // pid 0 may be in it several times
  Entries leases_;
};

}  // namespace uroce::nic::control
