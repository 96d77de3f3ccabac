#pragma once

#include <infiniband/verbs.h>

#include "transport/status.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// The object behind ibv_alloc_mw. Only the transport's memory table knows what it is bound to.
struct MemoryWindow {
  ibv_mw verbs;  // first: libibverbs knows the object by it
  ProtectionDomain* pd;

  static MemoryWindow& From(ibv_mw* mw) { return *reinterpret_cast<MemoryWindow*>(mw); }
};

// Unbinds the window and invalidates its keys.
transport::Status RemoveFromTransport(MemoryWindow& mw);

ibv_mw* AllocMw(ibv_pd* pd, ibv_mw_type type);
int DeallocMw(ibv_mw* mw);
// Posts the binding of a type 1 window to the send queue and sets mw->rkey to its new key.
int BindMw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

}  // namespace uroce::verbs
