#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "dpdk_nic/steering/flow_table.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {

// What ibv_create_flow returns; its queue pair owns it.
struct Flow {
  ibv_flow verbs = {};  // first: libibverbs knows the object by it

  QueuePair* qp = nullptr;
  uint64_t id = 0;  // in the engine's table
  nic::FlowRule rule;

  static Flow& From(ibv_flow* flow) { return *reinterpret_cast<Flow*>(flow); }
};

// Errors as of ToFlowRule; and EINVAL: not a raw packet queue pair; EOPNOTSUPP: a UD queue pair, as
// its datagrams find it by its number here; ENOMEM: there are too many flows.
ibv_flow* CreateFlow(ibv_qp* qp, ibv_flow_attr* attr);
int DestroyFlow(ibv_flow* flow);

bool HasFlows(const QueuePair& qp);
// Nothing comes by its flows any more; the structs stay.
void RemoveFlows(QueuePair& qp);

}  // namespace uroce::verbs
