// The handler that gets a fault. Each case runs in a child, because the case examines how the child
// ends, and because the guard is installed once a process.

#include "verbs_provider/virtual_kernel/faults/fault_guard.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "transport/guarded_access.h"
#include "verbs_provider/virtual_kernel/base/fault_calls.h"

namespace uroce::verbs::virtual_kernel {
namespace {

// Runs `f` in a child. Returns its result, or minus the signal that killed it.
template <class F>
int InChild(F f) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    // Not a sanitizer's handlers.
    ::signal(SIGSEGV, SIG_DFL);
    ::signal(SIGBUS, SIG_DFL);
    _exit(f());
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

void* Nowhere() {
  static void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return page;
}

void Guard() { uroce_guard_faults(&transport::GuardedResumeAddress); }

// Returns 0 if a guarded copy fails as it should.
int CopyFromNowhere() {
  char byte;
  return transport::GuardedCopy(&byte, Nowhere(), 1) ? 1 : 0;
}

// Causes a fault that is not guarded.
[[gnu::noinline]] void Fault() {
  asm volatile("movb (%0), %%al" : : "r"(Nowhere()) : "rax", "memory");
}

sigjmp_buf before_fault;
std::atomic<int> handled = 0;

void JumpBack(int) {
  ++handled;
  siglongjmp(before_fault, 1);
}

void ExitWithAddress(int signal, siginfo_t* info, void*) {
  _exit(signal == SIGSEGV && info->si_addr == Nowhere() ? 42 : 43);
}

void Count(int) { ++handled; }

struct sigaction Action(void (*handler)(int), int flags = 0) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  return action;
}

struct sigaction Action(void (*handler)(int, siginfo_t*, void*), int flags = 0) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = flags | SA_SIGINFO;
  return action;
}

// Installs a handler as the application does, through the interposed function.
int Install(int signal, const struct sigaction& action, struct sigaction* old = nullptr) {
  return FaultGuard::Handles(signal) ? FaultGuard::Sigaction(signal, &action, old)
                                     : sigaction(signal, &action, old);
}

TEST(FaultGuardTest, GuardedCopyFails) {
  EXPECT_EQ(InChild(CopyFromNowhere), -SIGSEGV);
  EXPECT_EQ(InChild([] {
              Guard();
              for (int i = 0; i < 1'000; ++i) {
                if (CopyFromNowhere() != 0) return 1;
              }
              return 0;
            }),
            0);
}

TEST(FaultGuardTest, OtherFaultsEndTheProcessAsEver) {
  EXPECT_EQ(InChild([] {
              Guard();
              Fault();
              return 0;
            }),
            -SIGSEGV);
}

TEST(FaultGuardTest, HandlerThatWasThereBeforeIsCalled) {
  EXPECT_EQ(InChild([] {
              Install(SIGSEGV, Action(ExitWithAddress));
              Guard();
              if (CopyFromNowhere() != 0) return 1;
              Fault();
              return 2;
            }),
            42);
}

TEST(FaultGuardTest, HandlerThatComesLaterIsCalledAndLeavesTheGuard) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(ExitWithAddress, SA_ONSTACK));
              if (CopyFromNowhere() != 0) return 1;
              Fault();
              return 2;
            }),
            42);
}

TEST(FaultGuardTest, ApplicationSeesItsOwnHandler) {
  EXPECT_EQ(InChild([] {
              struct sigaction action = Action(Count, SA_RESTART | SA_ONSTACK);
              sigaddset(&action.sa_mask, SIGUSR1);
#ifdef __SANITIZE_THREAD__
              Guard();  // else the kernel would know only the race detector's handler
              Install(SIGSEGV, action);
#else
              Install(SIGSEGV, action);
              Guard();
#endif
              struct sigaction seen = {};
              FaultGuard::Sigaction(SIGSEGV, nullptr, &seen);
              if (seen.sa_handler != Count || sigismember(&seen.sa_mask, SIGUSR1) != 1) return 1;
              if ((seen.sa_flags & (SA_RESTART | SA_ONSTACK)) != (SA_RESTART | SA_ONSTACK))
                return 2;
              struct sigaction before = {};
              if (Install(SIGSEGV, Action(SIG_DFL), &before) != 0) return 3;
              if (before.sa_handler != Count) return 4;
              FaultGuard::Sigaction(SIGSEGV, nullptr, &seen);
              return seen.sa_handler == SIG_DFL ? 0 : 5;
            }),
            0);
}

TEST(FaultGuardTest, DefaultInstalledLaterIsTheDefault) {
  EXPECT_EQ(InChild([] {
              Install(SIGSEGV, Action(Count));
              Guard();
              Install(SIGSEGV, Action(SIG_DFL));
              if (CopyFromNowhere() != 0) return 1;
              Fault();
              return 2;
            }),
            -SIGSEGV);
}

TEST(FaultGuardTest, HandlerMayJumpOut) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(JumpBack));
              while (handled < 10) {
                if (sigsetjmp(before_fault, 1) == 0) {
                  Fault();
                  return 1;
                }
                if (CopyFromNowhere() != 0) return 2;
              }
              return handled == 10 ? 0 : 3;
            }),
            0);
}

// The kernel resets the handler before it calls it.
TEST(FaultGuardTest, HandlerForOneFault) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(JumpBack, static_cast<int>(SA_RESETHAND)));
              if (sigsetjmp(before_fault, 1) == 0) Fault();
              if (handled != 1 || CopyFromNowhere() != 0) return 1;
              Fault();
              return 2;
            }),
            -SIGSEGV);
}

TEST(FaultGuardTest, IgnoringHelpsAgainstSignalsThatAreSentOnly) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(SIG_IGN));
              raise(SIGSEGV);
              return CopyFromNowhere();
            }),
            0);
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(SIG_IGN));
              Fault();
              return 0;
            }),
            -SIGSEGV);
}

TEST(FaultGuardTest, SignalThatIsSentIsHandledAsEver) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGBUS, Action(Count));
              raise(SIGBUS);
              return handled == 1 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(InChild([] {
              Guard();
              raise(SIGBUS);
              return 0;
            }),
            -SIGBUS);
}

// struct kernel_sigaction.
struct RawAction {
  void (*handler)(int, siginfo_t*, void*);
  unsigned long flags;
  void* restorer;
  uint64_t mask;
};
RawAction raw_before;

void PassOnRaw(int signal, siginfo_t* info, void* context) {
  ++handled;
  raw_before.handler(signal, info, context);
}

// A runtime installs its handler by system call and chains to the previous handler, the guard.
TEST(FaultGuardTest, HandlerInstalledPastTheGuardChainsToIt) {
  const auto install_raw = [] {
    syscall(SYS_rt_sigaction, SIGSEGV, nullptr, &raw_before, sizeof(uint64_t));
    RawAction action = raw_before;
    action.handler = PassOnRaw;
    syscall(SYS_rt_sigaction, SIGSEGV, &action, nullptr, sizeof(uint64_t));
  };
  EXPECT_EQ(InChild([&] {
              Guard();
              install_raw();
              return CopyFromNowhere() == 0 && handled == 1 ? 0 : 1;
            }),
            0);
  // When the guard is installed in front of it again, the runtime's handler is called only for
  // other faults, and the two do not call each other for ever.
  EXPECT_EQ(InChild([&] {
              Guard();
              install_raw();
              Guard();
              if (CopyFromNowhere() != 0 || handled != 0) return 1;
              Fault();
              return 2;
            }),
            -SIGSEGV);
}

TEST(FaultGuardTest, ThreadThatBlocksEverythingSurvives) {
  EXPECT_EQ(InChild([] {
              Guard();
              sigset_t all, seen;
              sigfillset(&all);
              if (FaultGuard::ChangeMask(pthread_sigmask, SIG_SETMASK, &all, nullptr) != 0)
                return 1;
              if (CopyFromNowhere() != 0) return 2;
              FaultGuard::ChangeMask(pthread_sigmask, SIG_BLOCK, nullptr, &seen);
              if (sigismember(&seen, SIGSEGV) != 1 || sigismember(&seen, SIGUSR1) != 1) return 3;
              FaultGuard::ChangeMask(pthread_sigmask, SIG_UNBLOCK, &all, nullptr);
              FaultGuard::ChangeMask(pthread_sigmask, SIG_BLOCK, nullptr, &seen);
              return sigismember(&seen, SIGSEGV) == 0 && sigismember(&seen, SIGUSR1) == 0 ? 0 : 4;
            }),
            0);
}

TEST(FaultGuardTest, ThreadThatHadThemBlockedBeforeAcceptsFaults) {
  EXPECT_EQ(InChild([] {
              sigset_t all, seen;
              sigfillset(&all);
              pthread_sigmask(SIG_SETMASK, &all, nullptr);
              Guard();
              uroce_accept_faults();
              if (CopyFromNowhere() != 0) return 1;
              FaultGuard::ChangeMask(pthread_sigmask, SIG_BLOCK, nullptr, &seen);
              return sigismember(&seen, SIGSEGV) == 1 && sigismember(&seen, SIGUSR1) == 1 ? 0 : 2;
            }),
            0);
}

// The child of vfork() shares its parent's memory but has signal handlers of its own.
TEST(FaultGuardTest, ChildOfAVforkChangesItsOwnHandlersOnly) {
  EXPECT_EQ(InChild([] {
              Guard();
              Install(SIGSEGV, Action(Count));
              const pid_t child = vfork();
              if (child == 0) {
                FaultGuard::Sigaction(SIGSEGV, nullptr, nullptr);
                const struct sigaction ignore = Action(SIG_IGN);
                FaultGuard::Sigaction(SIGSEGV, &ignore, nullptr);
                _exit(0);
              }
              waitpid(child, nullptr, 0);
              struct sigaction seen = {};
              FaultGuard::Sigaction(SIGSEGV, nullptr, &seen);
              return seen.sa_handler == Count ? CopyFromNowhere() : 1;
            }),
            0);
}

TEST(FaultGuardTest, ForkedChildIsGuarded) {
  EXPECT_EQ(InChild([] {
              Guard();
              return InChild([] {
                Guard();
                return CopyFromNowhere();
              });
            }),
            0);
}

TEST(FaultGuardTest, HandlersChangeWhileThreadsFault) {
  EXPECT_EQ(InChild([] {
              Guard();
              std::atomic<bool> done = false;
              std::thread changer([&] {
                while (!done) {
                  Install(SIGSEGV, Action(Count));
                  Install(SIGSEGV, Action(ExitWithAddress, SA_ONSTACK));
                }
              });
              int failed = 0;
              for (int i = 0; i < 20'000; ++i) failed += CopyFromNowhere();
              done = true;
              changer.join();
              return failed == 0 ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace uroce::verbs::virtual_kernel
