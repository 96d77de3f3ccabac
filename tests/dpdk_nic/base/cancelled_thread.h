#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <utility>

namespace uroce {

// Calls `f` in a thread that has been cancelled already: the first cancellation point that is not
// under a CancellationGuard ends the thread. Returns whether `f` came to its end.
template <class F>
bool OutlivesCancellation(F&& f) {
  pthread_t thread;
  auto* const call = &f;
  const auto run = [](void* argument) -> void* {
    pthread_cancel(pthread_self());
    (*static_cast<std::remove_reference_t<F>*>(argument))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, nullptr, run, call), 0);
  void* result = nullptr;
  EXPECT_EQ(pthread_join(thread, &result), 0);
  return result != PTHREAD_CANCELED;
}

}  // namespace uroce
