#include "verbs_provider/abi/core_library.h"

#include <dlfcn.h>

namespace uroce::verbs::abi {
namespace {

// Every release so far has a private ABI number in this range. v33 is the oldest whose layout is
// known.
constexpr int kOldestPrivateAbi = 33;
constexpr int kNewestPrivateAbi = 199;

template <typename Function>
bool Find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  return function != nullptr;
}

// Each public verb exists in two symbol versions; applications are linked to the default one.
template <typename Function>
bool FindVersioned(void* library, const char* symbol, const char* version, Function& function) {
  function = reinterpret_cast<Function>(dlvsym(library, symbol, version));
  return function != nullptr;
}

bool FindRegisterDriver(void* library, CoreLibrary& core) {
  for (int abi = kNewestPrivateAbi; abi >= kOldestPrivateAbi; --abi) {
    const std::string symbol = "verbs_register_driver_" + std::to_string(abi);
    if (Find(library, symbol.c_str(), core.register_driver)) {
      core.private_abi = abi;
      return true;
    }
  }
  return false;
}

}  // namespace

std::string FindCoreLibrary(CoreLibrary& core) {
  // The reference is kept for good: a provider registers pointers that libibverbs never gives back.
  void* library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "libibverbs.so.1 is not loaded in this process";
  if (!FindRegisterDriver(library, core)) {
    return "the installed libibverbs is older than release 33 or has no provider interface";
  }
  const bool found = Find(library, "_verbs_init_and_alloc_context", core.init_and_alloc_context) &&
                     Find(library, "verbs_uninit_context", core.uninit_context) &&
                     Find(library, "verbs_set_ops", core.set_ops) &&
                     FindVersioned(library, "ibv_open_device", "IBVERBS_1.1", core.open_device) &&
                     FindVersioned(library, "ibv_close_device", "IBVERBS_1.1", core.close_device) &&
                     FindVersioned(library, "ibv_query_port", "IBVERBS_1.1", core.query_port) &&
                     Find(library, "ibv_qp_to_qp_ex", core.qp_to_qp_ex);
  if (!found) {
    return "the installed libibverbs (private ABI " + std::to_string(core.private_abi) +
           ") lacks an entry point that providers need";
  }
  Find(library, "ibv_set_ece", core.set_ece);
  Find(library, "ibv_query_ece", core.query_ece);
  Find(library, "ibv_reg_dmabuf_mr", core.reg_dmabuf_mr);
  Find(library, "ibv_query_qp_data_in_order", core.query_qp_data_in_order);
  Find(library, "ibv_query_port_speed", core.query_port_speed);
  return "";
}

}  // namespace uroce::verbs::abi
