#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace uroce::nic {

// Lets a sibling hyper-thread run while this one waits for a cache line to change.
inline void SpinPause() { __builtin_ia32_pause(); }

// The engine's lock: held for one pass, by threads that mostly have something better to do than to
// wait for it. Who must have it (Lock) is let through before who only would like to drive
// (TryLock), or a thread that drives without a pause would keep it for ever.
class EngineLock {
 public:
  bool TryLock() { return waiting_.load(std::memory_order_relaxed) == 0 && Acquire(); }

  void Lock() {
    if (Acquire()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t tries = 0; !Acquire(); ++tries) {
      // The holder may have lost its processor to us.
      if (tries >= kSpins) {
        sched_yield();
      } else {
        SpinPause();
      }
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }

  void Unlock() { held_.store(false, std::memory_order_release); }

 private:
  // A pass takes about a microsecond, a pause 10 to 40 ns.
  static constexpr uint32_t kSpins = 64;

  bool Acquire() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<uint32_t> waiting_{0};
};

}  // namespace uroce::nic
