#pragma once

#include <cstdint>

#include "transport/ids.h"

namespace uroce::nic {

// The route to a host, as the kernel knows it.
struct KernelRoute {
  int error = 0;           // an errno value if there is no route; 0: there is one
  uint32_t mtu_bytes = 0;  // of the path; 0: unknown
};

// `interface_index` is where a link-local destination is. Sends nothing and does not wait.
KernelRoute FindKernelRoute(const transport::Gid& destination, int interface_index);

}  // namespace uroce::nic
