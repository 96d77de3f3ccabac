#pragma once

#include <pthread.h>

#include <functional>
#include <string>

#include "dpdk_nic/base/unique_fd.h"
#include "transport/time.h"

namespace uroce::nic {

// A thread of uroce inside an application. Signals of the program are not delivered to it, except
// those of its own faults. It sleeps in Wait; Wake wakes it.
class BackgroundThread {
 public:
  BackgroundThread();
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  // Runs `main` in a thread called `name`, which is cut at 15 bytes. Returns 0 or an errno value.
  // To be called once.
  int Start(const char* name, std::function<void()> main);
  // Waits until `main` has returned. To be called before the destructor, except in a forked child,
  // where the thread does not exist.
  void Join() { pthread_join(thread_, nullptr); }

  // Ends a Wait, or the next one. Any thread.
  void Wake();
  // Sleeps until Wake is called, a descriptor is readable (-1: none) or `until` has come. Returns
  // false if only the time has come. Called by the thread itself.
  bool Wait(int fd, int other_fd, transport::Time until);

 private:
  static void* Main(void* self);

  std::string name_;
  std::function<void()> main_;
  UniqueFd wake_fd_;
  pthread_t thread_{};
};

}  // namespace uroce::nic
