#pragma once

#include <pthread.h>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

// The mutex of `Owner`, which fork() holds: a child would otherwise inherit it locked by a thread
// that the child does not have, and wait for it for ever.
//
// fork() takes registered mutexes in the reverse order of registration. So a mutex that is taken
// while another one is held has to be registered before that one.
template <class Owner>
struct MutexHeldByFork {
  static inline constinit Mutex mutex;

  // To be called before the mutex is used. The first call registers the mutex.
  static void Register() {
    [[maybe_unused]] static const int registered = pthread_atfork(
        []() UROCE_ACQUIRE(mutex) { mutex.lock(); }, []() UROCE_RELEASE(mutex) { mutex.unlock(); },
        []() UROCE_RELEASE(mutex) { mutex.unlock(); });
  }
};

}  // namespace uroce::nic
