#pragma once

#include <cstdint>

#include "transport/ids.h"

namespace uroce::nic {

// What the kernel knows of the way to a host.
struct KernelRoute {
  int error = 0;           // an errno value: there is none. 0: there is one
  uint32_t mtu_bytes = 0;  // of the path, as far as it is known; 0: unknown
};

// `interface_index` is where a link-local destination is. Sends nothing and does not wait.
KernelRoute FindKernelRoute(const transport::Gid& destination, int interface_index);

}  // namespace uroce::nic
