// Calls about signals: FaultGuard answers for SIGSEGV and SIGBUS once its handler is installed.

#include <signal.h>

#include "verbs_provider/virtual_kernel/base/real_libc.h"
#include "verbs_provider/virtual_kernel/faults/fault_guard.h"
#include "verbs_provider/virtual_kernel/interpose/interpose.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// signal() as in BSD or as in System V.
sighandler_t SetHandler(int signal, sighandler_t handler, int flags, bool blocks_itself) {
  struct sigaction action = {};
  struct sigaction old = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  if (blocks_itself) sigaddset(&action.sa_mask, signal);
  return FaultGuard::Sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // namespace

extern "C" {

int InterposedSigaction(int signal, const struct sigaction* action, struct sigaction* old)
    UROCE_INTERPOSE(sigaction);
int InterposedSigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  if (!FaultGuard::Handles(signal)) return real::sigaction(signal, action, old);
  return FaultGuard::Sigaction(signal, action, old);
}

sighandler_t InterposedSignal(int signal, sighandler_t handler) UROCE_INTERPOSE(signal);
sighandler_t InterposedSignal(int signal, sighandler_t handler) {
  if (!FaultGuard::Handles(signal)) return real::signal(signal, handler);
  return SetHandler(signal, handler, SA_RESTART, /*blocks_itself=*/true);
}
sighandler_t InterposedBsdSignal(int signal, sighandler_t handler)
    UROCE_INTERPOSE_ALIAS(bsd_signal, signal);
sighandler_t InterposedSsignal(int signal, sighandler_t handler)
    UROCE_INTERPOSE_ALIAS(ssignal, signal);

// This is signal() in programs that are compiled for System V.
sighandler_t InterposedSysvSignal(int signal, sighandler_t handler) UROCE_INTERPOSE(__sysv_signal);
sighandler_t InterposedSysvSignal(int signal, sighandler_t handler) {
  if (!FaultGuard::Handles(signal)) return real::__sysv_signal(signal, handler);
  return SetHandler(signal, handler, static_cast<int>(SA_RESETHAND | SA_NODEFER),
                    /*blocks_itself=*/false);
}
sighandler_t InterposedSysvSignal2(int signal, sighandler_t handler)
    UROCE_INTERPOSE_ALIAS(sysv_signal, __sysv_signal);

int InterposedSigprocmask(int how, const sigset_t* set, sigset_t* old) UROCE_INTERPOSE(sigprocmask);
int InterposedSigprocmask(int how, const sigset_t* set, sigset_t* old) {
  return FaultGuard::ChangeMask(real::sigprocmask.Resolve(), how, set, old);
}

int InterposedPthreadSigmask(int how, const sigset_t* set, sigset_t* old)
    UROCE_INTERPOSE(pthread_sigmask);
int InterposedPthreadSigmask(int how, const sigset_t* set, sigset_t* old) {
  return FaultGuard::ChangeMask(real::pthread_sigmask.Resolve(), how, set, old);
}

}  // extern "C"
}  // namespace uroce::verbs::virtual_kernel
