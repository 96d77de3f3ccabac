#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "dpdk_nic/steering/flow_table.h"
#include "verbs_provider/objects/queue_pair.h"

namespace uroce::verbs {

// The object behind ibv_create_flow; its queue pair owns it.
struct Flow {
  ibv_flow verbs = {};  // first: libibverbs knows the object by it

  QueuePair* qp = nullptr;
  uint64_t id = 0;  // in the engine's table
  nic::FlowRule rule;

  static Flow& From(ibv_flow* flow) { return *reinterpret_cast<Flow*>(flow); }
};

// The errors of ToFlowRule, and EINVAL: not a raw packet queue pair; EOPNOTSUPP: a UD queue pair,
// as datagrams reach it by its number here; ENOMEM: too many flows.
ibv_flow* CreateFlow(ibv_qp* qp, ibv_flow_attr* attr);
int DestroyFlow(ibv_flow* flow);

bool HasFlows(const QueuePair& qp);
// Stops delivery through all flows of `qp`; the structs stay.
void RemoveFlows(QueuePair& qp);

}  // namespace uroce::verbs
