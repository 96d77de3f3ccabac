#include "verbs_provider/abi/virtual_kernel_calls.h"

#include <dlfcn.h>

#include "verbs_provider/virtual_kernel/base/event_files.h"
#include "verbs_provider/virtual_kernel/base/fault_calls.h"

namespace uroce::verbs::abi {
namespace {

VirtualKernelCalls virtual_kernel = {};

}  // namespace

std::string FindVirtualKernel(VirtualKernelCalls& calls) {
  const auto find = [](const char* name) { return dlsym(RTLD_DEFAULT, name); };
  calls.event_file_open =
      reinterpret_cast<decltype(&uroce_event_file_open)>(find("uroce_event_file_open"));
  calls.event_post = reinterpret_cast<decltype(&uroce_event_post)>(find("uroce_event_post"));
  calls.event_purge = reinterpret_cast<decltype(&uroce_event_purge)>(find("uroce_event_purge"));
  calls.uverbs_file = reinterpret_cast<decltype(&uroce_uverbs_file)>(find("uroce_uverbs_file"));
  calls.guard_faults = reinterpret_cast<decltype(&uroce_guard_faults)>(find("uroce_guard_faults"));
  calls.accept_faults =
      reinterpret_cast<decltype(&uroce_accept_faults)>(find("uroce_accept_faults"));
  if (calls.event_file_open == nullptr || calls.event_post == nullptr ||
      calls.event_purge == nullptr || calls.uverbs_file == nullptr ||
      calls.guard_faults == nullptr || calls.accept_faults == nullptr) {
    return "liburoce-preload.so is not preloaded in this process; start the program with "
           "'uroce run'";
  }
  return "";
}

void SetVirtualKernel(const VirtualKernelCalls& found) { virtual_kernel = found; }

const VirtualKernelCalls& VirtualKernel() { return virtual_kernel; }

}  // namespace uroce::verbs::abi
