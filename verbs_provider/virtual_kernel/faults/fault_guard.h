#pragma once

#include <signal.h>

namespace uroce::verbs::virtual_kernel {

// The handler of SIGSEGV and SIGBUS that recovers from faults in the memory of the application
// (base/fault_calls.h). Once installed, it stays the handler that the kernel calls; handlers that
// the application installs are kept here, called for the faults that are not ours, and returned by
// sigaction. So the order of installation and the chaining of handlers do not matter.
//
// All functions but the first may be called from any thread and from signal handlers.
class FaultGuard {
 public:
  // Makes fork() hold the lock of the handlers that are kept here. The first call registers; the
  // installation calls it as well.
  static void RegisterForkHandler();

  // Whether `signal` is handled here: no signal is before the installation.
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
