#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {

// Closes descriptors that other processes sent, on threads of its own: close() of a file in a FUSE
// file system waits for the process that serves it, of a TCP socket for the other end, of a Unix
// socket for the descriptors in its queue.
//
// If a process makes all threads wait, descriptors pile up: at most as many as uroced may have
// open.
class DescriptorCloser {
 public:
  // While fewer threads wait, other descriptors are still closed at once.
  static constexpr uint32_t kMaxThreads = 16;

  DescriptorCloser() : state_(std::make_shared<State>()) {}
  // Waiting threads go on and close the descriptors that are left.
  ~DescriptorCloser();
  DescriptorCloser(const DescriptorCloser&) = delete;
  DescriptorCloser& operator=(const DescriptorCloser&) = delete;

  // Does not block, except if no thread can be made (EAGAIN): then closes `fd` here.
  void Close(UniqueFd fd);

 private:
  struct State {
    Mutex mutex;
    std::condition_variable_any changed;
    std::deque<UniqueFd> waiting UROCE_GUARDED_BY(mutex);
    uint32_t threads UROCE_GUARDED_BY(mutex) = 0;
    uint32_t idle UROCE_GUARDED_BY(mutex) = 0;  // of them
    bool is_over UROCE_GUARDED_BY(mutex) = false;
  };
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace uroce::nic::control
