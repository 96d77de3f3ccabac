#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

// Lets a sibling hyper-thread run while this one waits for a cache line to change.
inline void SpinPause() { __builtin_ia32_pause(); }

// Lets any other thread run on this processor, whatever its priority: a thread of a real-time class
// never yields to one of the ordinary class.
inline void Nap() {
  const CancellationGuard guard;
  constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&kNap, nullptr);
}

// The engine's lock, held for one pass or verb. A verb, which must have the lock (Lock), comes
// before a thread that only offers to drive (TryLock): otherwise a thread that drives without a
// pause would keep the lock for ever.
//
// After a long wait a thread naps between its tries: Unlock wakes no thread, which would cost it an
// atomic operation. So the lock is safe for threads of any priority: while the waiting threads nap,
// the holder gets its processor back.
//
// A lock can join another one, which then protects the data of both. A joined lock stays held for
// ever: a thread that locks it always enters Wait, and takes the other lock there.
class UROCE_CAPABILITY("engine lock") EngineLock {
 public:
  bool TryLock() UROCE_TRY_ACQUIRE(true) {
    if (waiting_.load(std::memory_order_relaxed) == 0 && Acquire()) return true;
    EngineLock* const other = joined_.load(std::memory_order_acquire);
    return other != nullptr && other->TryLock();
  }

  void Lock() UROCE_ACQUIRE() {
    if (!Acquire()) [[unlikely]]
      Wait();
  }

  // Tells the analysis that the caller holds the lock, where it cannot see so: it takes the body of
  // a lambda for a function of its own.
  void AssertHeld() const UROCE_ASSERT_CAPABILITY() {}

  // Not analysed, as Wait: this lock may stand for another.
  void Unlock() UROCE_RELEASE() UROCE_NO_THREAD_SAFETY_ANALYSIS {
    EngineLock* const other = joined_.load(std::memory_order_relaxed);
    if (other != nullptr) [[unlikely]]
      return other->Unlock();
    held_.store(false, std::memory_order_release);
  }

  // From now on this lock stands for `other`, for good. The caller holds both and unlocks one.
  void Join(EngineLock& other) { joined_.store(&other, std::memory_order_release); }
  bool has_joined() const { return joined_.load(std::memory_order_acquire) != nullptr; }

  // Whether some thread holds it, or a moment ago did.
  bool is_held() const {
    const EngineLock* const other = joined_.load(std::memory_order_acquire);
    return other != nullptr ? other->is_held() : held_.load(std::memory_order_relaxed);
  }

  // To be called in a forked child by the holder: the waiting threads exist in the parent only.
  void ForgetWaiters() { waiting_.store(0, std::memory_order_relaxed); }

 private:
  // A pass takes about a microsecond, a pause 10 to 40 ns, a yield to no other thread 300 ns.
  static constexpr uint32_t kSpins = 64;
  static constexpr uint32_t kYields = 256;

  bool Acquire() {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }

  [[gnu::noinline]] void Wait() UROCE_NO_THREAD_SAFETY_ANALYSIS {
    if (EngineLock* const other = joined_.load(std::memory_order_acquire)) return other->Lock();
    waiting_.fetch_add(1, std::memory_order_relaxed);
    EngineLock* other = nullptr;
    for (uint32_t tries = 0; !Acquire(); ++tries) {
      other = joined_.load(std::memory_order_acquire);
      if (other != nullptr) break;
      if (tries < kSpins) {
        SpinPause();
      } else if (tries < kSpins + kYields) {
        sched_yield();  // the holder may have lost its processor to this thread
      } else {
        Nap();
      }
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (other != nullptr) other->Lock();
  }

  alignas(64) std::atomic<bool> held_{false};
  std::atomic<uint32_t> waiting_{0};
  std::atomic<EngineLock*> joined_{nullptr};
};

// Holds an EngineLock while it lives.
class UROCE_SCOPED_CAPABILITY EngineLockGuard {
 public:
  explicit EngineLockGuard(EngineLock& lock) UROCE_ACQUIRE(lock) : lock_(lock) { lock.Lock(); }
  ~EngineLockGuard() UROCE_RELEASE() { lock_.Unlock(); }
  EngineLockGuard(const EngineLockGuard&) = delete;
  EngineLockGuard& operator=(const EngineLockGuard&) = delete;

 private:
  EngineLock& lock_;
};

}  // namespace uroce::nic
