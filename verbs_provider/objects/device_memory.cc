#include "verbs_provider/objects/device_memory.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"

namespace uroce::verbs {
namespace {

constexpr uint32_t kLogPageBytes = 12;
static_assert(1u << kLogPageBytes == kDeviceMemoryPageBytes);

// Offsets and lengths of copies are multiples of a word.
constexpr uint64_t kWordBytes = 4;

int CheckCopy(const DeviceMemory& dm, uint64_t offset, size_t bytes) {
  if (!dm.Covers(offset, bytes)) return EFAULT;
  return offset % kWordBytes == 0 && bytes % kWordBytes == 0 ? 0 : EINVAL;
}

int CopyToDm(ibv_dm* verbs, uint64_t offset, const void* from, size_t bytes) {
  const DeviceMemory& dm = DeviceMemory::From(verbs);
  return SettingErrno([&] {
    const int error = CheckCopy(dm, offset, bytes);
    if (error == 0) std::memcpy(dm.bytes.get() + offset, from, bytes);
    return error;
  });
}

int CopyFromDm(void* to, ibv_dm* verbs, uint64_t offset, size_t bytes) {
  const DeviceMemory& dm = DeviceMemory::From(verbs);
  return SettingErrno([&] {
    const int error = CheckCopy(dm, offset, bytes);
    if (error == 0) std::memcpy(to, dm.bytes.get() + offset, bytes);
    return error;
  });
}

}  // namespace

ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  return ReturningObject<ibv_dm>([&](ibv_dm*& out) {
    Device& device = Context::From(context).device();
    constexpr uint64_t kAllBytes = uint64_t{kDeviceMemoryPages} * kDeviceMemoryPageBytes;
    if (attr->comp_mask != 0 || attr->length == 0) return EINVAL;
    if (attr->log_align_req > kLogPageBytes) return EINVAL;
    if (attr->length > kAllBytes) return ENOMEM;

    auto dm = std::make_unique<DeviceMemory>();
    // A forked child has no table of objects: a thread of its parent may hold the lock for ever.
    std::optional<PendingHandle> handle;
    if (!device.lost_by_fork()) handle.emplace(Context::From(context).objects(), *dm);
    dm->device = &device;
    dm->length = attr->length;
    dm->pages = static_cast<uint32_t>((attr->length + kDeviceMemoryPageBytes - 1) >> kLogPageBytes);
    const size_t bytes = size_t{dm->pages} << kLogPageBytes;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return ENOMEM;
    dm->bytes = {static_cast<uint8_t*>(memory), DeviceMemory::Unmap{bytes}};
    if (!device.device_memory_pages().Take(dm->pages)) return ENOMEM;
    dm->verbs.context = context;
    if (handle) dm->verbs.handle = handle->Keep();
    dm->verbs.memcpy_to_dm = CopyToDm;
    dm->verbs.memcpy_from_dm = CopyFromDm;
    out = &dm.release()->verbs;
    return 0;
  });
}

ibv_dm* ImportDm(ibv_context* context, uint32_t handle) {
  return ReturningObject<ibv_dm>([&](ibv_dm*& out) {
    if (Context::From(context).device().lost_by_fork()) return EIO;
    auto* const found = Context::From(context).objects().Find<DeviceMemory>(handle);
    if (found == nullptr) return ENOENT;
    auto dm = std::make_unique<DeviceMemory>();
    dm->imported_from = found;
    dm->verbs.context = context;
    dm->verbs.handle = handle;
    dm->verbs.memcpy_to_dm = CopyToDm;
    dm->verbs.memcpy_from_dm = CopyFromDm;
    found->users.Add();
    out = &dm.release()->verbs;
    return 0;
  });
}

void UnimportDm(ibv_dm* verbs) {
  auto* const dm = reinterpret_cast<DeviceMemory*>(verbs);
  dm->imported_from->users.Remove();
  delete dm;
}

int FreeDm(ibv_dm* verbs) {
  return ReturningErrno([&] {
    Context& context = Context::From(verbs->context);
    const bool has_handle = !context.device().lost_by_fork();
    if (has_handle) {
      if (const int error = CheckHandle<DeviceMemory>(verbs)) return error;
    }
    if (reinterpret_cast<DeviceMemory*>(verbs)->imported_from != nullptr) {
      UnimportDm(verbs);
      return 0;
    }
    DeviceMemory& dm = DeviceMemory::From(verbs);
    if (dm.users.in_use()) return EBUSY;
    if (has_handle) context.objects().Remove(verbs->handle);
    dm.device->device_memory_pages().Return(dm.pages);
    delete &dm;
    return 0;
  });
}

}  // namespace uroce::verbs
