#pragma once

#include <infiniband/verbs.h>

#include "dpdk_nic/steering/flow_table.h"

namespace uroce::verbs {

// Translates the argument of ibv_create_flow. `attr` is followed by num_of_specs specifications;
// like libibverbs, this steps by the size of each one and ignores attr.size. A flow of another type
// than IBV_FLOW_ATTR_NORMAL has its specifications ignored, as in mlx5. Returns an errno value:
//   EINVAL      an invalid port, type, flag or number of specifications; a specification whose
//               size is not that of its type; two of one layer, or two that contradict each other;
//               IBV_FLOW_ATTR_FLAGS_DONT_TRAP with another type than IBV_FLOW_ATTR_NORMAL
//   EOPNOTSUPP  tunnels, ESP, MPLS, actions, and frames that are sent (IBV_FLOW_ATTR_FLAGS_EGRESS)
int ToFlowRule(const ibv_flow_attr& attr, nic::FlowRule& rule);

}  // namespace uroce::verbs
