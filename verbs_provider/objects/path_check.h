#pragma once

#include <infiniband/verbs.h>

#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// Whether an address vector can be used on our port: 0, or EINVAL for another port, a GID index
// beyond the table, a service level of more than 4 bits, an address without a global route (RoCE
// has no other; a sentence on stderr says so once), or one whose two GIDs are not of the same IP
// version. A flow label of more than 20 bits is cut off, as NICs do: see ToAddressVector.
int CheckPath(Device& device, const ibv_ah_attr& attr);

}  // namespace uroce::verbs
