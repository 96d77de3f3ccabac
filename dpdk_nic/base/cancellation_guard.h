#pragma once

#include <pthread.h>

namespace uroce::nic {

// Keeps pthread_cancel() from ending the calling thread while the guard lives; a request that comes
// meanwhile stays pending. Needed around each cancellation point that a thread of the application
// passes inside a verb: cancelled there, the thread would take the engine's lock with it, or its
// unwinding would meet a noexcept function and end the process. On hardware only the waits that the
// application asks for are cancellation points (ibv_get_cq_event, rdma_get_cm_event).
//
// Placed at the system calls and not around a whole pass: it costs two atomic operations, and most
// passes make no system call.
class CancellationGuard {
 public:
  CancellationGuard() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationGuard() { pthread_setcancelstate(before_, nullptr); }
  CancellationGuard(const CancellationGuard&) = delete;
  CancellationGuard& operator=(const CancellationGuard&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace uroce::nic
