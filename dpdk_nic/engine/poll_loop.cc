#include "dpdk_nic/engine/poll_loop.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/drive_policy/limits.h"
#include "dpdk_nic/engine/engine_lock.h"

namespace uroce::nic {
namespace {

using transport::Time;

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
  Step step = policy_.Begin(Now(), source_.company());
  while (!stopping_.load(std::memory_order_relaxed)) step = Carry(step);
}

void PollLoop::Spin() {
  if (cpu_) PinTo(*cpu_);
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (source_.RunPass()) {
      pause_.PollWorked();
    } else if (!pause_.PollFailed()) {  // a yield costs little on a processor of our own
      SpinPause();
    }
  }
}

PollLoop::Step PollLoop::Carry(const Step& step) {
  using Do = ProgressPolicy::Do;
  switch (step.what) {
    case Do::kPass:
      return RunPass();
    case Do::kPause:
      if (!pause_.PollFailed()) SpinPause();
      return policy_.AfterPause();
    case Do::kStandBy:
      return StandBy(step.until);
    case Do::kSleep:
      break;
  }
  return Sleep(step.until);
}

PollLoop::Step PollLoop::RunPass() {
  const bool has_worked = source_.RunPass();
  if (has_worked) pause_.PollWorked();
  const Time now = Now();
  return policy_.AfterPass(now, has_worked, pause_.IsHogged(now), source_.company());
}

PollLoop::Step PollLoop::StandBy(Time until) {
  if (!std::exchange(stands_by_, true)) source_.SetStandsBy(true);
  thread_.Wait(-1, -1, until);
  const Step next = policy_.AfterStandBy(Now(), source_.company());
  stands_by_ = next.what == ProgressPolicy::Do::kStandBy;
  if (!stands_by_) source_.SetStandsBy(false);
  return next;
}

PollLoop::Step PollLoop::Sleep(Time latest) {
  const SleepPlan plan = source_.PlanSleep(latest);
  bool is_woken = true;
  if (plan.kind != SleepPlan::Kind::kNone) {
    const Time now = Now();
    Time until = plan.until;
    if (plan.kind == SleepPlan::Kind::kNap) until = std::min(until, policy_.NapEnd(now));
    // Another thread holds the engine and refused the pass for what is due. It may need this
    // processor to finish.
    if (until <= now) until = now + drive::kShortestNap;
    is_woken = thread_.Wait(plan.fds[0], plan.fds[1], until);
  }
  source_.EndSleep(plan);
  pause_.PollWorked();
  return policy_.AfterSleep(Now(), plan.kind, is_woken, source_.company());
}

}  // namespace uroce::nic
