#pragma once

#include <cstdint>
#include <string>

namespace uroce::verbs::abi {

// The functions of the virtual kernel (event_files.h, fault_calls.h), as found in this process.
struct VirtualKernelCalls {
  int (*event_file_open)(uint32_t record_bytes);
  int (*event_post)(int fd, const void* record);
  uint32_t (*event_purge)(int fd, uint64_t element);
  uint64_t (*uverbs_file)(int fd);
  void (*guard_faults)(uintptr_t (*resume_address)(uintptr_t pc));
  void (*accept_faults)();
};

// Looks up the functions. Returns an empty string, or a sentence if the preload library is missing.
[[nodiscard]] std::string FindVirtualKernel(VirtualKernelCalls& found);

// Sets what VirtualKernel() returns. To be called once, before a device is opened.
void SetVirtualKernel(const VirtualKernelCalls& found);
const VirtualKernelCalls& VirtualKernel();

}  // namespace uroce::verbs::abi
