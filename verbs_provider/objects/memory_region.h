#pragma once

#include <infiniband/verbs.h>

#include "transport/memory/memory_table.h"
#include "verbs_provider/abi/private_abi.h"
#include "verbs_provider/base/object_list.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// What ibv_reg_mr returns. The transport's memory table has what the region covers and permits;
// here is only what libibverbs wants to see.
struct MemoryRegion {
  abi::VerbsMr verbs;  // first: libibverbs knows the object by it
  ProtectionDomain* pd;
  // As registered: ibv_rereg_mr changes a part of it and keeps the rest.
  transport::MemoryRegion registered;
  ObjectLink<MemoryRegion> link;

  static MemoryRegion& From(abi::VerbsMr* mr) { return *reinterpret_cast<MemoryRegion*>(mr); }
  static MemoryRegion& From(ibv_mr* mr) { return *reinterpret_cast<MemoryRegion*>(mr); }
};

// The keys of the region are not valid any more. kBusy while windows are bound to it.
transport::Status RemoveFromTransport(MemoryRegion& mr);

// EFAULT: a page is not mapped, or not writable although the access wants to write. EINVAL: remote
// write or atomic access without local write access, an unknown access flag, an iova with another
// offset in its page than the address has, a range that wraps around or is an empty one at the
// start of a page. ENOMEM: no key left, or the pages could not be populated.
ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
int ReregMr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
// EBUSY while memory windows are bound to the region.
int DeregMr(abi::VerbsMr* mr);

}  // namespace uroce::verbs
