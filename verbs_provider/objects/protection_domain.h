#pragma once

#include <infiniband/verbs.h>

#include "transport/ids.h"
#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The object behind ibv_alloc_td: a promise that one thread at a time uses the queue pairs of
// parent domains with it. The promise is not used: a lock that no other thread wants costs little.
struct ThreadDomain {
  ibv_td verbs;  // first: libibverbs knows the object by it
  Device* device;
  UseCount users;

  static ThreadDomain& From(ibv_td* td) { return *reinterpret_cast<ThreadDomain*>(td); }
};

// The object behind ibv_alloc_pd and ibv_alloc_parent_domain. Memory regions, windows, queue pairs
// and address handles use it.
struct ProtectionDomain {
  ibv_pd verbs;  // first: libibverbs knows the object by it
  Device* device;
  transport::PdId id;  // a parent domain has that of `original`
  UseCount users;
  // Null except in a parent domain.
  ProtectionDomain* original;
  ThreadDomain* thread;  // null without one
  // Null except in what ImportPd has returned, which stands for another domain.
  ProtectionDomain* imported_from;

  // An imported domain is the one that it stands for.
  static ProtectionDomain& From(ibv_pd* verbs) {
    auto& pd = *reinterpret_cast<ProtectionDomain*>(verbs);
    return pd.imported_from == nullptr ? pd : *pd.imported_from;
  }
};

ibv_pd* AllocPd(ibv_context* context);
// EBUSY while objects, parent domains or imported ones use it. An imported one is unimported.
int DeallocPd(ibv_pd* pd);
// Makes another handle of the domain with this handle in a context of the same device file.
// ENOENT: there is none.
ibv_pd* ImportPd(ibv_context* context, uint32_t handle);
void UnimportPd(ibv_pd* pd);
// EINVAL: no protection domain, objects of another context, or an unknown attribute. The
// application's allocators are for buffers that a device reads and writes by DMA. This device has
// no such buffers and never calls them, and permission to leave them unprotected means nothing.
ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* attr);

// EINVAL: an unknown attribute.
ibv_td* AllocTd(ibv_context* context, ibv_td_init_attr* attr);
// EBUSY while parent domains use it.
int DeallocTd(ibv_td* td);

}  // namespace uroce::verbs
