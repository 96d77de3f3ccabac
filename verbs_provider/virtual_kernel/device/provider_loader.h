#pragma once

#include <string>

#include "verbs_provider/virtual_kernel/device/device_description.h"
#include "verbs_provider/virtual_kernel/device/provider_functions.h"

namespace uroce::verbs::virtual_kernel {

struct ProviderLibrary {
  enum class State {
    kNotYet,  // libibverbs is not loaded, so a provider is not wanted
    kDone,    // loaded, or `error` says why not
  };
  State state = State::kNotYet;
  decltype(&uroce_describe_device) describe_device = nullptr;
  RdmaCmFunctions rdma_cm;
  std::string error;
};

// Loads liburoce-provider.so, for good, if libibverbs is in this process: the file that the
// environment variable UROCE_PROVIDER names, else the one that lies beside this library.
ProviderLibrary LoadProvider();

}  // namespace uroce::verbs::virtual_kernel
