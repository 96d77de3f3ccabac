#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic::control {

// Closes descriptors that other processes sent, on threads of its own: close() of a file in a FUSE
// file system waits for the process that serves it, that of a TCP socket for the other end, that of
// a Unix socket for those that lie in its queue.
//
// A process that makes all threads wait makes descriptors pile up; they are at most those that
// uroced may have open.
class DescriptorCloser {
 public:
  // As many can wait at the same time and others are still closed at once.
  static constexpr uint32_t kMaxThreads = 16;

  DescriptorCloser() : state_(std::make_shared<State>()) {}
  // Threads that wait go on, and close what is left.
  ~DescriptorCloser();
  DescriptorCloser(const DescriptorCloser&) = delete;
  DescriptorCloser& operator=(const DescriptorCloser&) = delete;

  // Does not block. Without a thread (EAGAIN), closes it here.
  void Close(UniqueFd fd);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<UniqueFd> waiting;
    uint32_t threads = 0;
    uint32_t idle = 0;  // of them
    bool is_over = false;
  };
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace uroce::nic::control
