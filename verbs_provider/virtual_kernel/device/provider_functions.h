#pragma once

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/device/rdma_cm_calls.h"

namespace uroce::verbs::virtual_kernel {

// The functions of the provider's connection manager; null if it has none.
struct RdmaCmFunctions {
  decltype(&uroce_rdma_cm_open) open = nullptr;
  decltype(&uroce_rdma_cm_write) write = nullptr;
  decltype(&uroce_rdma_cm_close) close = nullptr;

  explicit operator bool() const { return open != nullptr && write != nullptr && close != nullptr; }
};

}  // namespace uroce::verbs::virtual_kernel
