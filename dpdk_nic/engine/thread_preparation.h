#pragma once

#include <atomic>

namespace uroce::nic {

// Runs once in every application thread, before the thread drives an engine for the first time. The
// provider's lets the thread take faults: copies of application memory may fault. Null: nothing.
inline constinit std::atomic<void (*)()> thread_preparation = nullptr;

// initial-exec: an access costs one load instead of a call.
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
