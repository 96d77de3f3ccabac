#pragma once

#include <infiniband/verbs.h>

#include "transport/status.h"
#include "verbs_provider/base/object_list.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// What ibv_alloc_mw returns. What it is bound to is known to the transport's memory table only.
struct MemoryWindow {
  ibv_mw verbs;  // first: libibverbs knows the object by it
  ProtectionDomain* pd;
  ObjectLink<MemoryWindow> link;

  static MemoryWindow& From(ibv_mw* mw) { return *reinterpret_cast<MemoryWindow*>(mw); }
};

// The window is unbound and its keys are not valid any more.
transport::Status RemoveFromTransport(MemoryWindow& mw);

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int DeallocMw(ibv_mw* mw);
// Posts the binding of a type 1 window to the send queue and sets mw->rkey to its new key.
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

}  // namespace uroce::verbs
