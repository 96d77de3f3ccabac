#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>

#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Leases of a private fabric: uroced runs as long as a process that has one, whether that is a
// client or not. Processes are watched by pidfds, so a lease survives exec.
class Leases {
 public:
  // Half of the clients that there can be.
  static constexpr uint32_t kMaxPerUser = 512;

  // `on_end` is called after each end of a process with a lease.
  Leases(boost::asio::io_context& io, std::function<void()> on_end);

  // The process has to be alive. `pid` and `uid` are what the kernel says of the peer of `socket`;
  // the pid is 0 in a process namespace that we do not see. 0, also if it has a lease already.
  // EDQUOT: its user has too many. Otherwise why it cannot be watched: ESRCH if its pid is not
  // visible from here, and the kernel is older than Linux 6.5.
  ErrnoValue Add(pid_t pid, uid_t uid, int socket);

  bool empty() const { return leases_.empty(); }

 private:
  struct Lease {
    uid_t uid;
    boost::asio::posix::stream_descriptor pidfd;
  };

  boost::asio::io_context& io_;
  const std::function<void()> on_end_;
  using Entries = std::multimap<pid_t, Lease>;  // several of 0
  Entries leases_;
};

}  // namespace uroce::nic::control
