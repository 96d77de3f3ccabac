#pragma once

#include <string>

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/device/provider_functions.h"

namespace uroce::verbs::virtual_kernel {

struct ProviderLibrary {
  decltype(&uroce_describe_device) describe_device = nullptr;
  decltype(&uroce_register_provider) register_provider = nullptr;
  decltype(&uroce_device_changes) device_changes = nullptr;
  // Not of every provider.
  decltype(&uroce_before_end) before_end = nullptr;
  decltype(&uroce_counter_file) counter_file = nullptr;
  decltype(&uroce_read_counter) read_counter = nullptr;
  RdmaCmFunctions rdma_cm;
  std::string error;  // "", or why there is no provider
};

// Loads liburoce-provider.so, for good: the file that the environment variable UROCE_PROVIDER
// names, else the one that lies beside this library.
ProviderLibrary LoadProvider();

// Whether libibverbs is in this process.
bool HasLibibverbs();

}  // namespace uroce::verbs::virtual_kernel
