#pragma once

#include <infiniband/verbs.h>

#include "transport/memory/memory_table.h"
#include "verbs_provider/abi/private_abi.h"
#include "verbs_provider/objects/device_memory.h"
#include "verbs_provider/objects/protection_domain.h"

namespace uroce::verbs {

// The object behind ibv_reg_mr. The transport's memory table has what the region covers and
// permits; this struct has what libibverbs wants to see and what ibv_rereg_mr keeps.
struct MemoryRegion {
  abi::VerbsMr verbs;  // first: libibverbs knows the object by it
  ProtectionDomain* pd;
  // As registered: ibv_rereg_mr changes a part of it and keeps the rest.
  transport::MemoryRegion registered;
  DeviceMemory* device_memory;  // null: other memory

  static MemoryRegion& From(abi::VerbsMr* mr) { return *reinterpret_cast<MemoryRegion*>(mr); }
  static MemoryRegion& From(ibv_mr* mr) { return *reinterpret_cast<MemoryRegion*>(mr); }
};

// Invalidates the keys of the region. kBusy while windows are bound to it.
transport::Status RemoveFromTransport(MemoryRegion& mr);

// EFAULT: a page is not mapped, or not writable although the access includes writing. EINVAL:
// remote write or atomic access without local write access, an unknown access flag, an iova with
// another offset in its page than the address has, a range that wraps around, or an empty range at
// the start of a page. ENOMEM: no key left, or the pages could not be populated.
ibv_mr* RegMr(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access);
// A region of all addresses: reads return zero, writes are discarded. ENOMEM: no key left.
ibv_mr* AllocNullMr(ibv_pd* pd);
// EINVAL also for a region of device memory and for a null region.
int ReregMr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
// EINVAL: a range beyond the device memory, access that ibv_reg_mr refuses or that lacks
// IBV_ACCESS_ZERO_BASED.
ibv_mr* RegDmMr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned int access);
// EBUSY while memory windows are bound to the region. An imported one is unimported.
int DeregMr(abi::VerbsMr* mr);
// As ImportPd. Its address is null, as the program that imports it may not have mapped it.
ibv_mr* ImportMr(ibv_pd* pd, uint32_t handle);
void UnimportMr(ibv_mr* mr);
// Populates the pages of on-demand regions before they are used. EOPNOTSUPP: an unknown advice.
// EINVAL: unknown flags. ENOENT: no region of the protection domain has this key and range. EPERM:
// a region that may not be written is to be populated for writing. EFAULT: a page is not mapped, or
// forbids the access; only with IBV_ADVISE_MR_FLAG_FLUSH, because without it the kernel populates
// in the background and reports nothing.
int AdviseMr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* ranges,
             uint32_t count);

}  // namespace uroce::verbs
