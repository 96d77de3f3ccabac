#include "verbs_provider/virtual_kernel/faults/fault_guard.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "verbs_provider/virtual_kernel/base/errno_guard.h"
#include "verbs_provider/virtual_kernel/base/fault_calls.h"

// A signal handler returns to the kernel through this code. Debuggers and unwinders recognize a
// signal's frame by these very bytes.
asm(R"(
  .pushsection .text
  .balign 16
  nop
  .globl uroce_restore_rt
  .hidden uroce_restore_rt
  .type uroce_restore_rt, @function
uroce_restore_rt:
  movq $15, %rax
  syscall
  .popsection
)");
extern "C" void uroce_restore_rt();

namespace uroce::verbs::virtual_kernel {

// The fault signals that the thread believes to be blocked. In static memory of the thread: this
// library is loaded with the program, and a signal handler must not have memory allocated.
//
// Not in the unnamed namespace: ld 2.40 gives a shared library's local symbol of this kind the
// address of whatever is first in the thread's memory (thread_memory_test).
[[gnu::tls_model("initial-exec"),
  gnu::visibility("hidden")]] constinit thread_local uint64_t seemingly_blocked = 0;

namespace {

constexpr unsigned long kRestorer = 0x04000000;  // SA_RESTORER

// struct kernel_sigaction of x86-64.
struct KernelAction {
  uintptr_t handler;
  unsigned long flags;
  uintptr_t restorer;
  uint64_t mask;
};

// A direct system call: a sanitizer's sigaction() would make the kernel call the sanitizer.
int SetKernelAction(int signal, const KernelAction* action, KernelAction* old) {
  return static_cast<int>(syscall(SYS_rt_sigaction, signal, action, old, sizeof action->mask));
}

uint64_t ChangeKernelMask(int how, uint64_t mask) {
  uint64_t old = 0;
  syscall(SYS_rt_sigprocmask, how, &mask, &old, sizeof mask);
  return old;
}

constexpr uint64_t BitOf(int signal) { return uint64_t{1} << (signal - 1); }
constexpr uint64_t kFaults = BitOf(SIGSEGV) | BitOf(SIGBUS);

// The kernel's signals are the first word of a sigset_t.
uint64_t FirstWord(const sigset_t& set) {
  uint64_t word;
  std::memcpy(&word, &set, sizeof word);
  return word;
}

void SetFirstWord(sigset_t& set, uint64_t word) { std::memcpy(&set, &word, sizeof word); }

// The handler that the application has installed for one signal. Written under the lock; a signal
// handler reads it without the lock.
struct Disposition {
  std::atomic<uintptr_t> handler{0};
  std::atomic<unsigned long> flags{0};
  std::atomic<uintptr_t> restorer{0};
  std::atomic<uint64_t> mask{0};

  // Loads in this order, and before the next load of the caller.
  KernelAction Load() const {
    return {handler.load(std::memory_order_acquire), flags.load(std::memory_order_acquire),
            restorer.load(std::memory_order_acquire), mask.load(std::memory_order_acquire)};
  }
  void Store(const KernelAction& action) {
    handler.store(action.handler, std::memory_order_relaxed);
    flags.store(action.flags, std::memory_order_relaxed);
    restorer.store(action.restorer, std::memory_order_relaxed);
    mask.store(action.mask, std::memory_order_relaxed);
  }
};

constinit std::atomic<uroce_resume_address> resume_address = nullptr;
constinit Disposition segv;
constinit Disposition bus;
// Odd while a disposition changes.
constinit std::atomic<uint32_t> changes = 0;
constinit std::atomic<bool> locked = false;
constinit std::atomic<pid_t> owner_pid = 0;

Disposition& DispositionOf(int signal) { return signal == SIGSEGV ? segv : bus; }

// Held with all signals blocked, for a few stores and a system call.
class Lock {
 public:
  Lock() : mask_(ChangeKernelMask(SIG_SETMASK, ~uint64_t{0})) {
    while (locked.exchange(true, std::memory_order_acquire)) sched_yield();
  }
  ~Lock() {
    locked.store(false, std::memory_order_release);
    ChangeKernelMask(SIG_SETMASK, mask_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  const uint64_t mask_;
};

// Under the lock.
void Change(Disposition& disposition, const KernelAction& action) {
  changes.fetch_add(1, std::memory_order_acq_rel);
  disposition.Store(action);
  changes.fetch_add(1, std::memory_order_release);
}

// Ends: a writer has all signals blocked, so the interrupted thread is never the writer.
KernelAction Read(const Disposition& disposition) {
  while (true) {
    const uint32_t before = changes.load(std::memory_order_acquire);
    const KernelAction action = disposition.Load();
    if (before % 2 == 0 && before == changes.load(std::memory_order_relaxed)) return action;
  }
}

void RestoreDefault(int signal) {
  const KernelAction action = {.handler = 0, .flags = 0, .restorer = 0, .mask = 0};
  SetKernelAction(signal, &action, nullptr);
}

// Makes the process end as it would have without us. An instruction that faulted faults again when
// the handler returns, so that the core dump shows the fault; a signal that was sent is sent again.
void EndByDefault(int signal, siginfo_t* info) {
  RestoreDefault(signal);
  const bool repeats = info->si_code > 0 && !(signal == SIGBUS && info->si_code == BUS_MCEERR_AO);
  if (!repeats) syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info);
}

// Calls the handler that the application has installed.
void PassOn(int signal, siginfo_t* info, void* context) {
  Disposition& disposition = DispositionOf(signal);
  const KernelAction theirs = Read(disposition);
  const bool is_fault = info->si_code > 0;
  const bool is_ignored = theirs.handler == reinterpret_cast<uintptr_t>(SIG_IGN);
  if (is_ignored && !is_fault) return;
  // The kernel does not let a thread ignore a fault.
  if (theirs.handler == 0 || is_ignored) return EndByDefault(signal, info);
  if ((theirs.flags & SA_RESETHAND) != 0) {
    const Lock lock;
    Change(disposition, {.handler = 0, .flags = 0, .restorer = 0, .mask = 0});
  }
  // The kernel passes all three arguments without SA_SIGINFO, too.
  reinterpret_cast<void (*)(int, siginfo_t*, void*)>(theirs.handler)(signal, info, context);
}

// Whether the kernel called the handler whose frame is at `frame`, rather than a handler that was
// installed past us and believes that we come after it. The kernel lays the context out behind the
// return address.
bool IsCalledByKernel(const void* frame, const void* context) {
  return static_cast<const uint8_t*>(context) == static_cast<const uint8_t*>(frame) + 16;
}

void HandleFault(int signal, siginfo_t* info, void* context) {
  const ErrnoGuard guard;
  auto& pc = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
  if (info->si_code > 0) {
    const uintptr_t resume =
        resume_address.load(std::memory_order_relaxed)(static_cast<uintptr_t>(pc));
    if (resume != 0) {
      pc = static_cast<greg_t>(resume);
      return;
    }
  }
  if (!IsCalledByKernel(__builtin_frame_address(0), context)) return EndByDefault(signal, info);
  PassOn(signal, info, context);
}

// Our handler with the application's choices, so that the kernel blocks signals and restarts system
// calls as the application asked.
KernelAction OursInsteadOf(const KernelAction& theirs) {
  return {.handler = reinterpret_cast<uintptr_t>(&HandleFault),
          .flags = SA_SIGINFO | SA_ONSTACK | kRestorer | (theirs.flags & (SA_NODEFER | SA_RESTART)),
          .restorer = reinterpret_cast<uintptr_t>(&uroce_restore_rt),
          .mask = theirs.mask};
}

// Under the lock.
void Install(int signal) {
  KernelAction present;
  if (SetKernelAction(signal, nullptr, &present) != 0) return;
  if (present.handler == reinterpret_cast<uintptr_t>(&HandleFault)) return;
  Change(DispositionOf(signal), present);
  const KernelAction ours = OursInsteadOf(present);
  SetKernelAction(signal, &ours, nullptr);
}

// The child of a vfork() has its parent's memory, but signal handlers of its own.
bool InForeignProcess() { return getpid() != owner_pid.load(std::memory_order_relaxed); }

KernelAction FromLibc(const struct sigaction& action) {
  return {.handler = reinterpret_cast<uintptr_t>(action.sa_handler),
          .flags = static_cast<unsigned int>(action.sa_flags) | kRestorer,
          .restorer = reinterpret_cast<uintptr_t>(&uroce_restore_rt),
          .mask = FirstWord(action.sa_mask)};
}

void ToLibc(const KernelAction& action, struct sigaction& out) {
  out.sa_handler = reinterpret_cast<sighandler_t>(action.handler);
  out.sa_flags = static_cast<int>(action.flags);
  out.sa_restorer = reinterpret_cast<void (*)()>(action.restorer);
  sigemptyset(&out.sa_mask);
  SetFirstWord(out.sa_mask, action.mask);
}

}  // namespace

void FaultGuard::RegisterForkHandler() {
  [[maybe_unused]] static const int registered = pthread_atfork(
      [] {
        while (locked.exchange(true, std::memory_order_acquire)) sched_yield();
      },
      [] { locked.store(false, std::memory_order_release); },
      [] {
        owner_pid.store(getpid(), std::memory_order_relaxed);
        locked.store(false, std::memory_order_release);
      });
}

bool FaultGuard::Handles(int signal) {
  return (signal == SIGSEGV || signal == SIGBUS) &&
         resume_address.load(std::memory_order_acquire) != nullptr;
}

int FaultGuard::Sigaction(int signal, const struct sigaction* action, struct sigaction* old) {
  Disposition& disposition = DispositionOf(signal);
  const KernelAction theirs = Read(disposition);
  if (action != nullptr) {
    const KernelAction wanted = FromLibc(*action);
    if (InForeignProcess()) {
      if (SetKernelAction(signal, &wanted, nullptr) != 0) return -1;
    } else {
      const Lock lock;
      Change(disposition, wanted);
      const KernelAction ours = OursInsteadOf(wanted);
      SetKernelAction(signal, &ours, nullptr);
    }
  }
  if (old != nullptr) ToLibc(theirs, *old);
  return 0;
}

int FaultGuard::ChangeMask(Sigmask* real, int how, const sigset_t* set, sigset_t* old) {
  if (resume_address.load(std::memory_order_acquire) == nullptr) return real(how, set, old);
  const uint64_t before = seemingly_blocked;
  uint64_t after = before;
  sigset_t accepting;
  if (set != nullptr) {
    accepting = *set;  // before `old` is written, which may be the same object
    const uint64_t wanted = FirstWord(*set) & kFaults;
    if (how == SIG_BLOCK) after |= wanted;
    if (how == SIG_UNBLOCK) after &= ~wanted;
    if (how == SIG_SETMASK) after = wanted;
    if (how != SIG_UNBLOCK) SetFirstWord(accepting, FirstWord(*set) & ~kFaults);
  }
  const int result = real(how, set == nullptr ? nullptr : &accepting, old);
  if (result != 0) return result;
  seemingly_blocked = after;
  if (old != nullptr) SetFirstWord(*old, FirstWord(*old) | before);
  return 0;
}

}  // namespace uroce::verbs::virtual_kernel

void uroce_guard_faults(uroce_resume_address resume) {
  using namespace uroce::verbs::virtual_kernel;
  const ErrnoGuard guard;
  FaultGuard::RegisterForkHandler();
  owner_pid.store(getpid(), std::memory_order_relaxed);
  const Lock lock;
  resume_address.store(resume, std::memory_order_release);
  Install(SIGSEGV);
  Install(SIGBUS);
}

void uroce_accept_faults() {
  using namespace uroce::verbs::virtual_kernel;
  seemingly_blocked |= ChangeKernelMask(SIG_UNBLOCK, kFaults) & kFaults;
}
