#include "verbs_provider/objects/device_memory.h"

#include <cerrno>
#include <cstring>

#include "verbs_provider/base/c_boundary.h"
#include "verbs_provider/device/context.h"
#include "verbs_provider/objects/destroy.h"

namespace uroce::verbs {
namespace {

constexpr uint32_t kLogPageBytes = 12;
static_assert(1u << kLogPageBytes == kDeviceMemoryPageBytes);

int CopyToDm(ibv_dm* verbs, uint64_t offset, const void* from, size_t bytes) {
  const DeviceMemory& dm = DeviceMemory::From(verbs);
  return SettingErrno([&] {
    if (!dm.Covers(offset, bytes)) return EFAULT;
    std::memcpy(dm.bytes.get() + offset, from, bytes);
    return 0;
  });
}

int CopyFromDm(void* to, ibv_dm* verbs, uint64_t offset, size_t bytes) {
  const DeviceMemory& dm = DeviceMemory::From(verbs);
  return SettingErrno([&] {
    if (!dm.Covers(offset, bytes)) return EFAULT;
    std::memcpy(to, dm.bytes.get() + offset, bytes);
    return 0;
  });
}

}  // namespace

ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attr) {
  return ReturningObject<ibv_dm>([&](ibv_dm*& out) {
    Device& device = Context::From(context).device();
    if (device.lost_by_fork()) return EIO;
    constexpr uint64_t kAllBytes = uint64_t{kDeviceMemoryPages} * kDeviceMemoryPageBytes;
    if (attr->comp_mask != 0 || attr->length == 0) return EINVAL;
    if (attr->log_align_req > kLogPageBytes) return EINVAL;
    if (attr->length > kAllBytes) return ENOMEM;

    auto dm = std::make_unique<DeviceMemory>();
    dm->device = &device;
    dm->length = attr->length;
    dm->pages = static_cast<uint32_t>((attr->length + kDeviceMemoryPageBytes - 1) >> kLogPageBytes);
    const size_t bytes = size_t{dm->pages} << kLogPageBytes;
    dm->bytes.reset(static_cast<uint8_t*>(std::aligned_alloc(kDeviceMemoryPageBytes, bytes)));
    if (dm->bytes == nullptr || !device.device_memory_pages().Take(dm->pages)) return ENOMEM;
    std::memset(dm->bytes.get(), 0, bytes);
    dm->verbs.context = context;
    dm->verbs.memcpy_to_dm = CopyToDm;
    dm->verbs.memcpy_from_dm = CopyFromDm;
    out = &dm.release()->verbs;
    return 0;
  });
}

int FreeDm(ibv_dm* verbs) {
  return DestroyUnused<DeviceMemory>(
      verbs, [](DeviceMemory& dm) { dm.device->device_memory_pages().Return(dm.pages); });
}

}  // namespace uroce::verbs
