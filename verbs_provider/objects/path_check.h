#pragma once

#include <infiniband/verbs.h>

#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// Whether an address vector can be used on our port: 0, or EINVAL for another port, a GID index
// beyond the table, a flow label of more than 20 bits, an address without a global route (RoCE has
// no other), or one whose two GIDs are not of the same IP version.
int CheckPath(const Device& device, const ibv_ah_attr& attr);

}  // namespace uroce::verbs
