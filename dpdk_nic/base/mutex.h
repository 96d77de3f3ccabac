#pragma once

#include <mutex>

#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

// A mutex of the standard library whose rules clang checks: libstdc++ does not annotate its own.
// Fits std::condition_variable_any.
template <class Implementation>
class UROCE_CAPABILITY("mutex") CheckedMutex {
 public:
  constexpr CheckedMutex() = default;
  CheckedMutex(const CheckedMutex&) = delete;
  CheckedMutex& operator=(const CheckedMutex&) = delete;

  void lock() UROCE_ACQUIRE() { implementation_.lock(); }
  bool try_lock() UROCE_TRY_ACQUIRE(true) { return implementation_.try_lock(); }
  void unlock() UROCE_RELEASE() { implementation_.unlock(); }
  // Tells the analysis that the caller holds the mutex, where it cannot see so: it takes the body
  // of a lambda for a function of its own.
  void AssertHeld() const UROCE_ASSERT_CAPABILITY() {}

 private:
  Implementation implementation_;
};

using Mutex = CheckedMutex<std::mutex>;
using RecursiveMutex = CheckedMutex<std::recursive_mutex>;

// Holds a mutex while it lives.
template <class M>
class UROCE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(M& mutex) UROCE_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~MutexLock() UROCE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  M& mutex_;
};

}  // namespace uroce::nic
