#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <map>

#include "dpdk_nic/control/messages.h"

namespace uroce::nic::control {

// Processes that want a private uroced to stay, whether they speak with it or not. They are known
// by pidfds, which stay theirs when they become other programs.
class Leases {
 public:
  // Half of all processes that there can be, as for clients: so many programs may be started.
  static constexpr uint32_t kMaxPerUser = 512;

  // `on_end` is called whenever one of them has ended.
  Leases(boost::asio::io_context& io, std::function<void()> on_end);

  // The process has to be alive. 0, also if it holds already; EDQUOT: its user has too many; or why
  // it cannot be watched, ESRCH if it cannot be seen.
  ErrnoValue Add(pid_t pid, uid_t uid);

  bool empty() const { return leases_.empty(); }

 private:
  struct Lease {
    uid_t uid;
    boost::asio::posix::stream_descriptor pidfd;
  };

  boost::asio::io_context& io_;
  const std::function<void()> on_end_;
  std::map<pid_t, Lease> leases_;
};

}  // namespace uroce::nic::control
