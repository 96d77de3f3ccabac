#pragma once

#include <cstdint>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {

// A way to the network by UDP sockets, some for each process of the host: so frames for a process
// reach it, not the owner of this object. All calls under the lock of its port.
class SocketSharing {
 public:
  virtual ~SocketSharing() = default;

  // Whether there are sockets now; they may come later.
  virtual bool has_sockets() const = 0;
  // New sockets that receive the frames for the queue pairs of a block, one for each IP version;
  // none while there are no sockets. The owner keeps copies.
  virtual std::vector<UniqueFd> Share(uint32_t block) = 0;
  // The process of the block is gone, or is about to get new sockets.
  virtual void Unshare(uint32_t block) = 0;
};

}  // namespace uroce::nic
