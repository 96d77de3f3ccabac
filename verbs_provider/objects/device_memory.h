#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "verbs_provider/base/use_count.h"
#include "verbs_provider/device/device.h"

namespace uroce::verbs {

// The object behind ibv_alloc_dm. The device has no memory of its own: this is memory of the
// process that the application reaches by copies and by regions only.
struct DeviceMemory {
  struct Free {
    void operator()(uint8_t* bytes) const { std::free(bytes); }
  };

  ibv_dm verbs = {};  // first: libibverbs knows the object by it
  Device* device = nullptr;
  std::unique_ptr<uint8_t[], Free> bytes;
  size_t length = 0;   // in bytes, as requested
  uint32_t pages = 0;  // of the device's quota
  UseCount users;      // memory regions

  bool Covers(uint64_t offset, uint64_t count) const {
    return offset <= length && count <= length - offset;
  }

  static DeviceMemory& From(ibv_dm* dm) { return *reinterpret_cast<DeviceMemory*>(dm); }
};

// EINVAL: a length of zero, an alignment of more than a page, an unknown attribute.
// ENOMEM: more than is left of max_dm_size. The memory is zero.
ibv_dm* AllocDm(ibv_context* context, ibv_alloc_dm_attr* attr);
// EBUSY while memory regions use it.
int FreeDm(ibv_dm* dm);

}  // namespace uroce::verbs
