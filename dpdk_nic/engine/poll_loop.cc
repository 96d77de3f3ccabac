#include "dpdk_nic/engine/poll_loop.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/engine_lock.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Microseconds;
using transport::Milliseconds;
using transport::Time;

// How long to look for more work before going to sleep: a little more than a wakeup costs both
// sides together, on a machine where waking a sleeper takes 20 us.
constexpr Duration kSpin = Microseconds(50);

constexpr Duration kShortestNap = Microseconds(20);
constexpr Duration kLongestNap = Milliseconds(1);

// struct sched_attr of linux/sched/types.h, in its first version of 48 bytes.
struct SchedulingAttributes {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};

// Asks for the shortest time slices that there are. From Linux 6.12 on, a thread that wakes up
// takes the processor at once from a thread with longer slices. Otherwise it waits for the end of
// that thread's slice: a program that spins on memory would delay for milliseconds the thread that
// is to write there.
void AskForShortSlices() {
  constexpr uint64_t kShortestNs = 100'000;
  SchedulingAttributes attributes{};
  const bool is_known = syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0;
  if (!is_known || attributes.policy != SCHED_OTHER) return;
  attributes.runtime_ns = kShortestNs;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

}  // namespace

int PollLoop::Start(const char* name) { return StartThread(name, &PollLoop::Run); }

int PollLoop::StartSpinning(const char* name, std::optional<int> cpu) {
  cpu_ = cpu;
  return StartThread(name, &PollLoop::Spin);
}

int PollLoop::StartThread(const char* name, void (PollLoop::*run)()) {
  const int error = thread_.Start(name, [this, run] { (this->*run)(); });
  is_running_ = error == 0;
  return error;
}

void PollLoop::Stop() {
  if (!is_running_) return;
  stopping_.store(true, std::memory_order_relaxed);
  Wake();
  thread_.Join();
  is_running_ = false;
}

void PollLoop::Run() {
  // Deadlines and naps are of microseconds; the default slack is 50 us.
  prctl(PR_SET_TIMERSLACK, 1'000);
  AskForShortSlices();
  nap_ = kShortestNap;
  bool just_woken = true;
  while (!stopping()) {
    if (PollWhileBusy(just_woken)) source_.StandBy();
    just_woken = SleepUntilWoken();
  }
}

void PollLoop::Spin() {
  if (cpu_) PinTo(*cpu_);
  while (!stopping()) {
    if (source_.RunPass()) {
      pause_.PollWorked();
    } else if (!pause_.PollFailed()) {  // a yield costs little on a processor of our own
      SpinPause();
    }
  }
}

// Makes passes until there was nothing to do for kSpin. A thread that was just woken polls that
// long in any case: to find the work that woke it, or the thread that took that work. Returns
// whether another thread drives.
bool PollLoop::PollWhileBusy(bool just_woken) {
  Time give_up = just_woken ? Now() + kSpin : Time{0};
  pause_.PollWorked();
  source_.HasCompany();
  while (!stopping()) {
    const bool worked = source_.RunPass();
    if (source_.IsDrivenElsewhere()) return true;
    const Time now = Now();
    if (worked) {
      give_up = now + kSpin;
      pause_.PollWorked();
      nap_ = kShortestNap;
      continue;
    }
    if (now >= give_up || (pause_.IsHogged(now) && !source_.HasCompany())) break;
    if (!pause_.PollFailed()) SpinPause();
  }
  return false;
}

// Returns whether something other than the time ended the sleep.
bool PollLoop::SleepUntilWoken() {
  const SleepPlan plan = source_.PlanSleep();
  bool woken = true;
  if (plan.kind != SleepPlan::Kind::kNone) {
    const Time now = Now();
    Time until = plan.until;
    if (plan.kind == SleepPlan::Kind::kNap) {
      until = std::min(until, now + nap_);
      nap_ = std::min(nap_ * 2, kLongestNap);
    }
    // Another thread holds the engine and refused the pass for what is due. It may need this
    // processor to finish.
    if (until <= now) until = now + kShortestNap;
    woken = thread_.Wait(plan.fds[0], plan.fds[1], until);
  }
  source_.EndSleep(plan, woken);
  return woken;
}

}  // namespace uroce::nic
