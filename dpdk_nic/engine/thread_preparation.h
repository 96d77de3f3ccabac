#pragma once

#include <atomic>

namespace uroce::nic {

// What every thread of the application does once, before it drives an engine for the first time:
// the provider has it accept faults in the memory that it copies to and from. Null: nothing.
inline constinit std::atomic<void (*)()> thread_preparation = nullptr;

// In static memory of the thread, which costs one load instead of a call.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local bool is_thread_prepared = false;

inline void PrepareThread() {
  if (is_thread_prepared) [[likely]]
    return;
  if (auto* const prepare = thread_preparation.load(std::memory_order_acquire)) {
    prepare();
    is_thread_prepared = true;
  }
}

}  // namespace uroce::nic
