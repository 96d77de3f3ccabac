#pragma once

#include <infiniband/verbs.h>

#include "transport/ids.h"
#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// What ibv_alloc_pd returns. Memory regions, windows, queue pairs and address handles use it.
struct ProtectionDomain {
  ibv_pd verbs;  // first: libibverbs knows the object by it
  Device* device;
  transport::PdId id;
  UseCount users;

  static ProtectionDomain& From(ibv_pd* pd) { return *reinterpret_cast<ProtectionDomain*>(pd); }
};

ibv_pd* AllocPd(ibv_context* context);
int DeallocPd(ibv_pd* pd);

}  // namespace uroce::verbs
