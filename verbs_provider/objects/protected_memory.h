#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::verbs {

// The memory that regions pin. The processor cannot reach it while its owner has protected it by
// mprotect(); a NIC could, and so the kernel is asked to, as a debugger asks it. A region with
// on-demand paging is not among them: there a NIC faults as well.
//
// Any thread may call all functions.
class ProtectedMemory {
 public:
  // Makes fork() hold the lock, which is taken under the engines' locks.
  static void RegisterForkHandler();
  // Lets the transport use Read and Write.
  static void Serve();

  // `key` is that of a region.
  static void Add(uint32_t key, const void* address, size_t bytes);
  static void Remove(uint32_t key);

  // Copy what could not be copied; false if the memory is not pinned, is gone, or is a shared
  // mapping that may not be written to.
  static bool Read(void* to, const void* from, size_t bytes);
  static bool Write(void* to, const void* from, size_t bytes);
};

}  // namespace uroce::verbs
