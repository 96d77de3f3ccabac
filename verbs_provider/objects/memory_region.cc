#include "verbs_provider/objects/memory_region.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <span>

#include "verbs_provider/abi/newer_verbs.h"
#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/base/translate.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/pinning.h"
#include "verbs_provider/objects/protected_memory.h"

namespace uroce::verbs {
namespace {

constexpr uint32_t kWritingAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;
constexpr uint32_t kKnownAccess = kWritingAccess | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                                  abi::kAccessFlushGlobal | IBV_ACCESS_OPTIONAL_RANGE;
constexpr uint64_t kPageOffset = 4095;

// ib_check_mr_access() of the kernel.
int CheckAccess(uint32_t access) {
  if ((access & ~kKnownAccess) != 0) return EINVAL;
  constexpr uint32_t kRemoteChange = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if ((access & kRemoteChange) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  return 0;
}

// ib_umem_get() of the kernel; an on-demand region need not be mapped before it is used.
int CheckPages(const transport::MemoryRegion& region, uint32_t access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    const auto begin = reinterpret_cast<uintptr_t>(region.host_address);
    return begin + region.length < begin ? EINVAL : 0;
  }
  const bool writes = (access & kWritingAccess) != 0;
  return PinPages(region.host_address, region.length, writes ? PinFor::kWriting : PinFor::kReading);
}

int Check(const transport::MemoryRegion& region, uint32_t access) {
  if (const int error = CheckAccess(access)) return error;
  // Neither range may wrap at 2^64 (CheckPages checks the addresses). The kernel maps whole pages,
  // so iova and address must have the same offset in their pages.
  if (region.iova + region.length < region.iova) return EINVAL;
  const bool zero_based = (access & IBV_ACCESS_ZERO_BASED) != 0;
  const auto address = reinterpret_cast<uintptr_t>(region.host_address);
  if (!zero_based && ((region.iova ^ address) & kPageOffset) != 0) return EINVAL;
  return CheckPages(region, access);
}

// Sets the members that all kinds of regions have.
void Complete(ProtectionDomain& pd, transport::LKey key, PendingHandle& handle, MemoryRegion& mr) {
  pd.users.Add();
  mr.pd = &pd;
  mr.verbs.mr.lkey = key.value;
  mr.verbs.mr.rkey = key.value;
  mr.verbs.mr.handle = handle.Keep();
}

void FollowPinning(transport::LKey key, const transport::MemoryRegion& region, uint32_t access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) {
    ProtectedMemory::Remove(key.value);
  } else {
    ProtectedMemory::Add(key.value, region.host_address, region.length);
  }
}

int Register(Context& context, ProtectionDomain& pd, const transport::MemoryRegion& region,
             uint32_t access, MemoryRegion*& out) {
  GuardMemory();
  auto mr = std::make_unique<MemoryRegion>();
  PendingHandle handle(context.objects(), *mr);
  const std::optional<transport::LKey> key =
      pd.device->WithMemory([&](transport::MemoryTable& memory) {
        const std::optional<transport::LKey> taken = memory.Register(region);
        if (taken) FollowPinning(*taken, region, access);
        return taken;
      });
  if (!key) return ENOMEM;
  mr->registered = region;
  mr->verbs.type = abi::MrType::kMr;
  mr->verbs.access = static_cast<int>(access);
  Complete(pd, *key, handle, *mr);
  out = mr.release();
  return 0;
}

// The access for which an advice populates pages.
PinFor PurposeOf(uint32_t advice) {
  return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? PinFor::kWriting : PinFor::kReading;
}

}  // namespace

ibv_mr* RegMr(ibv_pd* verbs, void* address, size_t length, uint64_t iova, int access) {
  return ReturningObject<ibv_mr>([&](ibv_mr*& out) {
    if (const int error = CheckHandle<ProtectionDomain>(verbs)) return error;
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    const auto bits = static_cast<uint32_t>(access);
    const transport::MemoryRegion region = {
        .pd = pd.id,
        .iova = (bits & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova,
        .host_address = static_cast<uint8_t*>(address),
        .length = length,
        .access = ToAccessFlags(bits),
    };
    MemoryRegion* mr = nullptr;
    int error = Check(region, bits);
    if (error == 0) error = Register(Context::From(verbs->context), pd, region, bits, mr);
    if (error == 0) out = &mr->verbs.mr;
    return error;
  });
}

ibv_mr* RegDmMr(ibv_pd* verbs, ibv_dm* dm_verbs, uint64_t offset, size_t length,
                unsigned int access) {
  return ReturningObject<ibv_mr>([&](ibv_mr*& out) {
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    if (dm_verbs->context != verbs->context) return EINVAL;
    if (const int error = CheckHandle<DeviceMemory>(dm_verbs)) return error;
    DeviceMemory& dm = DeviceMemory::From(dm_verbs);
    if (!dm.Covers(offset, length)) return EINVAL;
    if ((access & IBV_ACCESS_ZERO_BASED) == 0) return EINVAL;
    if (const int error = CheckAccess(access)) return error;
    MemoryRegion* mr = nullptr;
    const int error = Register(Context::From(verbs->context), pd,
                               {.pd = pd.id,
                                .iova = 0,
                                .host_address = dm.bytes.get() + offset,
                                .length = length,
                                .access = ToAccessFlags(access)},
                               access, mr);
    if (error != 0) return error;
    dm.users.Add();
    mr->device_memory = &dm;
    // libibverbs sets none of these.
    mr->verbs.mr.context = verbs->context;
    mr->verbs.mr.pd = verbs;
    mr->verbs.mr.length = length;
    out = &mr->verbs.mr;
    return 0;
  });
}

ibv_mr* AllocNullMr(ibv_pd* verbs) {
  return ReturningObject<ibv_mr>([&](ibv_mr*& out) {
    if (const int error = CheckHandle<ProtectionDomain>(verbs)) return error;
    ProtectionDomain& pd = ProtectionDomain::From(verbs);
    auto mr = std::make_unique<MemoryRegion>();
    PendingHandle handle(Context::From(verbs->context).objects(), *mr);
    const std::optional<transport::LKey> key = pd.device->WithMemory(
        [&](transport::MemoryTable& memory) { return memory.RegisterNull(pd.id); });
    if (!key) return ENOMEM;
    mr->verbs.type = abi::MrType::kNullMr;
    // libibverbs sets none of these.
    mr->verbs.mr.context = verbs->context;
    mr->verbs.mr.pd = verbs;
    Complete(pd, *key, handle, *mr);
    out = &mr.release()->verbs.mr;
    return 0;
  });
}

int ReregMr(abi::VerbsMr* verbs, int flags, ibv_pd* new_pd, void* address, size_t length,
            int access) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<MemoryRegion>(&verbs->mr)) return error;
    MemoryRegion& mr = MemoryRegion::From(verbs);
    Device& device = *mr.pd->device;
    if (mr.device_memory != nullptr || mr.verbs.type == abi::MrType::kNullMr) return EINVAL;

    const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    const bool changes_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    if (changes_pd && (new_pd == nullptr || new_pd->context != verbs->mr.context)) {
      return EINVAL;
    }
    if (changes_pd) {
      if (const int error = CheckHandle<ProtectionDomain>(new_pd)) return error;
    }
    ProtectionDomain& pd = changes_pd ? ProtectionDomain::From(new_pd) : *mr.pd;
    const auto bits = static_cast<uint32_t>(changes_access ? access : mr.verbs.access);

    transport::MemoryRegion region = mr.registered;
    region.pd = pd.id;
    region.access = ToAccessFlags(bits);
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
      region.host_address = static_cast<uint8_t*>(address);
      region.length = length;
      region.iova = (bits & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : reinterpret_cast<uintptr_t>(address);
    }
    if (const int error = Check(region, bits)) return error;

    const transport::LKey key{mr.verbs.mr.lkey};
    const auto status = device.WithMemory([&](transport::MemoryTable& memory) {
      const auto changed = memory.Reregister(key, region);
      if (changed == transport::Status::kOk) FollowPinning(key, region, bits);
      return changed;
    });
    if (status != transport::Status::kOk) return static_cast<int>(status);

    pd.users.Add();
    mr.pd->users.Remove();
    mr.pd = &pd;
    mr.registered = region;
    mr.verbs.access = static_cast<int>(bits);
    return 0;
  });
}

transport::Status RemoveFromTransport(MemoryRegion& mr) {
  const transport::LKey key{mr.verbs.mr.lkey};
  return mr.pd->device->WithMemory([&](transport::MemoryTable& memory) {
    const auto status = memory.Deregister(key);
    if (status == transport::Status::kOk) ProtectedMemory::Remove(key.value);
    return status;
  });
}

ibv_mr* ImportMr(ibv_pd* pd_verbs, uint32_t handle) {
  return ReturningObject<ibv_mr>([&](ibv_mr*& out) {
    if (const int error = CheckHandle<ProtectionDomain>(pd_verbs)) return error;
    const auto* const found = Context::From(pd_verbs->context).objects().Find<MemoryRegion>(handle);
    if (found == nullptr) return ENOENT;
    auto mr = std::make_unique<MemoryRegion>();
    mr->verbs = found->verbs;
    mr->verbs.type = abi::MrType::kImportedMr;
    mr->verbs.mr.context = pd_verbs->context;
    mr->verbs.mr.pd = pd_verbs;
    mr->verbs.mr.addr = nullptr;
    out = &mr.release()->verbs.mr;
    return 0;
  });
}

void UnimportMr(ibv_mr* mr) { delete &MemoryRegion::From(mr); }

int DeregMr(abi::VerbsMr* verbs) {
  if (verbs->type == abi::MrType::kImportedMr) {
    UnimportMr(&verbs->mr);
    return 0;
  }
  return ReturningErrno([&] {
    if (const int error = CheckHandle<MemoryRegion>(&verbs->mr)) return error;
    MemoryRegion& mr = MemoryRegion::From(verbs);
    const auto status = RemoveFromTransport(mr);
    if (status != transport::Status::kOk) return static_cast<int>(status);
    Context::From(verbs->mr.context).objects().Remove(verbs->mr.handle);
    mr.pd->users.Remove();
    if (mr.device_memory != nullptr) mr.device_memory->users.Remove();
    delete &mr;
    return 0;
  });
}

int AdviseMr(ibv_pd* verbs, ibv_advise_mr_advice advice_value, uint32_t flags, ibv_sge* ranges,
             uint32_t count) {
  return ReturningErrno([&] {
    if (const int error = CheckHandle<ProtectionDomain>(verbs)) return error;
    const ProtectionDomain& pd = ProtectionDomain::From(verbs);
    const uint32_t advice = RawValue(advice_value);
    if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
    if ((flags & ~uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) return EINVAL;
    const PinFor purpose = PurposeOf(advice);
    for (const ibv_sge& range : std::span(ranges, count)) {
      const auto memory_with = [&](uint32_t access) {
        return pd.device->WithMemory([&](transport::MemoryTable& memory) {
          const transport::LKey key{range.lkey};
          if (memory.IsNull(key)) return static_cast<uint8_t*>(nullptr);
          return memory.LocalAddress(pd.id, key, range.addr, range.length, access);
        });
      };
      const uint8_t* const memory = memory_with(0);
      if (memory == nullptr) return ENOENT;
      if (purpose == PinFor::kWriting &&
          memory_with(transport::AccessFlags::kLocalWrite) == nullptr) {
        return EPERM;
      }
      // Present pages need nothing, as the processor's page tables are the device's.
      if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || range.length == 0) continue;
      const int error = PinPages(memory, range.length, purpose);
      if (error != 0 && (flags & IBV_ADVISE_MR_FLAG_FLUSH) != 0) return error;
    }
    return 0;
  });
}

}  // namespace uroce::verbs
