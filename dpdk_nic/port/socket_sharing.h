#pragma once

#include <cstdint>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {

// A way to the network by UDP sockets that each process of the host has some of, so that what is
// for it comes to it and not to the owner of this object. All calls under the lock of its port.
class SocketSharing {
 public:
  virtual ~SocketSharing() = default;

  // Whether there are sockets now; they may come later.
  virtual bool has_sockets() const = 0;
  // New sockets that get what is for the queue pairs of a block, one for each IP version; none
  // while there are no sockets. The owner keeps copies.
  virtual std::vector<UniqueFd> Share(uint32_t block) = 0;
  // The process of the block is gone, or is to get others.
  virtual void Unshare(uint32_t block) = 0;
};

}  // namespace uroce::nic
