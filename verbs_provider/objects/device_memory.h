#pragma once

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The object behind ibv_alloc_dm. The device has no memory of its own: this is memory of the
// process that the application reaches by copies and by regions only. A forked child shares it, as
// it shares what a NIC has mapped, and may allocate more: copies need no port.
struct DeviceMemory {
  struct Unmap {
    size_t bytes;
    void operator()(uint8_t* memory) const { munmap(memory, bytes); }
  };

  ibv_dm verbs = {};  // first: libibverbs knows the object by it
  Device* device = nullptr;
  std::unique_ptr<uint8_t[], Unmap> bytes;
  size_t length = 0;   // in bytes, as requested
  uint32_t pages = 0;  // of the device's quota
  UseCount users;      // memory regions

  // Null except in what ImportDm has returned, which stands for another one.
  DeviceMemory* imported_from = nullptr;

  bool Covers(uint64_t offset, uint64_t count) const {
    return offset <= length && count <= length - offset;
  }

  // Imported device memory is the memory that it stands for.
  static DeviceMemory& From(ibv_dm* verbs) {
    auto& dm = *reinterpret_cast<DeviceMemory*>(verbs);
    return dm.imported_from == nullptr ? dm : *dm.imported_from;
  }
};

// EINVAL: a length of zero, an alignment of more than a page, an unknown attribute.
// ENOMEM: more than is left of max_dm_size. The memory is zero. Copies from and to it answer EFAULT
// beyond its end, and EINVAL for an offset or a length that is no multiple of 4, as those of mlx5.
ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attr);
// EBUSY while memory regions use it, or it is imported. Imported memory is unimported.
int FreeDm(ibv_dm* dm);
// As ImportPd.
ibv_dm* ImportDm(ibv_context* context, uint32_t handle);
void UnimportDm(ibv_dm* dm);

}  // namespace uroce::verbs
