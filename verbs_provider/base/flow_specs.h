#pragma once

#include <infiniband/verbs.h>

#include "dpdk_nic/steering/flow_table.h"

namespace uroce::verbs {

// What a program asks for with ibv_create_flow. `attr` is followed by num_of_specs specifications;
// as libibverbs, this goes by their own sizes and not by attr.size. Those of another type than
// IBV_FLOW_ATTR_NORMAL are not looked at, as by mlx5. Returns an errno value:
//   EINVAL      a port, type, flag or number of specifications that there is not; a specification
//               of another size than its type has; two of one layer, or two that contradict each
//               other; IBV_FLOW_ATTR_FLAGS_DONT_TRAP with another type than IBV_FLOW_ATTR_NORMAL
//   EOPNOTSUPP  tunnels, ESP, MPLS, actions, and frames that are sent (IBV_FLOW_ATTR_FLAGS_EGRESS)
int ToFlowRule(const ibv_flow_attr& attr, nic::FlowRule& rule);

}  // namespace uroce::verbs
