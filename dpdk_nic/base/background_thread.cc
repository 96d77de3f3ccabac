#include "dpdk_nic/base/background_thread.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;

timespec ToTimespec(Duration d) { return {d.ns / 1'000'000'000, d.ns % 1'000'000'000}; }

}  // namespace

BackgroundThread::BackgroundThread() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

int BackgroundThread::Start(const char* name, std::function<void()> main) {
  if (!wake_fd_) return EMFILE;
  name_ = std::string(name).substr(0, 15);
  main_ = std::move(main);
  sigset_t all, before;
  sigfillset(&all);
  // A fault while its signal is blocked ends the process, whatever handler there is.
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, Main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

void* BackgroundThread::Main(void* self) {
  auto& thread = *static_cast<BackgroundThread*>(self);
  pthread_setname_np(pthread_self(), thread.name_.c_str());
  thread.main_();
  return nullptr;
}

void BackgroundThread::Wake() {
  const CancellationGuard guard;
  // Fails only if the counter is full, and then the thread is being woken already.
  [[maybe_unused]] const int result = eventfd_write(wake_fd_.get(), 1);
}

bool BackgroundThread::Wait(int fd, int other_fd, Time until) {
  pollfd fds[3] = {{wake_fd_.get(), POLLIN, 0}, {fd, POLLIN, 0}, {other_fd, POLLIN, 0}};
  const timespec timeout = ToTimespec(std::max(until - Now(), Duration{0}));
  const int ready = ppoll(fds, 3, until == transport::kNever ? nullptr : &timeout, nullptr);
  if (fds[0].revents != 0) {
    eventfd_t wakes;
    [[maybe_unused]] const int result = eventfd_read(wake_fd_.get(), &wakes);
  }
  return ready > 0;
}

}  // namespace uroce::nic
