#pragma once

#include <signal.h>

namespace uroce::verbs::virtual_kernel {

// The handler of SIGSEGV and SIGBUS that recovers from faults in the memory of the application
// (base/fault_calls.h). From its installation on it stays the one that the kernel calls; what the
// application installs is kept here, called for the faults that are not ours, and returned by
// sigaction. So the order of installation and the chaining of handlers do not matter.
//
// All functions but the first may be called from any thread and from signal handlers.
class FaultGuard {
 public:
  // Has fork() hold the lock of what is kept here. The first call registers; the installation does
  // it as well.
  static void RegisterForkHandler();

  // Whether `signal` is handled here. Until the installation nothing is.
  static bool Handles(int signal);

  // sigaction() of a signal that is handled here.
  static int Sigaction(int signal, const struct sigaction* action, struct sigaction* old);

  // pthread_sigmask() by way of `real`: the signals stay unblocked in the kernel, which would end
  // the process for a fault while they are blocked, but are shown as the thread wants them.
  // Returns what `real` returns.
  using Sigmask = int(int how, const sigset_t* set, sigset_t* old);
  static int ChangeMask(Sigmask* real, int how, const sigset_t* set, sigset_t* old);
};

}  // namespace uroce::verbs::virtual_kernel
