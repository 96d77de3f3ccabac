#pragma once

#include "dpdk_nic/neighbor_table.h"

namespace uroce::nic {

// Next hops as the kernel routes them over one of its interfaces: destinations of another subnet go
// to the gateway of that route. Destinations that the kernel has no route to over the interface are
// taken to be on the link.
NeighborTable::NextHop KernelNextHop(int interface_index);

}  // namespace uroce::nic
