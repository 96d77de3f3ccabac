#pragma once

#include <infiniband/verbs.h>

#include <optional>

#include "transport/address.h"
#include "transport/ids.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// Whether an address vector can be used on our port: 0, or EINVAL for another port, a GID index
// beyond the table, a service level of more than 4 bits, an address without a global route (RoCE
// has no other; a sentence on stderr says so once), or one whose two GIDs are not of the same IP
// version. A flow label of more than 20 bits is cut off, as NICs do: see ToAddressVector.
int CheckPath(Device& device, const ibv_ah_attr& attr);

// The address vector to use for `attr`. ff0e::ffff:a.b.c.d, the RoCEv1 name of an IPv4 group
// (cma_iboe_set_mgid of Linux), becomes the IPv4 group if the source address is IPv4.
transport::AddressVector AddressOf(Device& device, const ibv_ah_attr& attr);

// The IPv4 group, as ::ffff:a.b.c.d, if `group` is ff0e::ffff:a.b.c.d.
std::optional<transport::Gid> Ipv4GroupOf(const transport::Gid& group);

}  // namespace uroce::verbs
