#pragma once

#include <pthread.h>

#include <functional>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "transport/time.h"

namespace uroce::nic {

// A thread of ours inside an application: the program's signals are not
// delivered to it, but for its own faults. It sleeps in Wait and is woken by Wake.
class BackgroundThread {
 public:
  BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Runs `main` in a thread with that name, which the kernel cuts at 15 bytes. Returns 0 or an
  // errno value. Once.
  int Start(const char* name, std::function<void()> main);
  // Until main has returned. Before the destructor, unless the thread does not exist (in a forked
  // child).
  void Join() { pthread_join(thread_, nullptr); }

  // Ends a Wait, or the next one. Any thread.
  void Wake();
  // Sleeps until Wake is called, a descriptor is readable (-1: none) or the time has come. Returns
  // whether it was another thing than the time. For the thread itself.
  bool Wait(int fd, int other_fd, transport::Time until);

 private:
  static void* Main(void* self);

  std::string name_;
  std::function<void()> main_;
  UniqueFd wake_fd_;
  pthread_t thread_{};
};

}  // namespace uroce::nic
