#include "dpdk_nic/engine/progress.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <system_error>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/engine.h"
#include "dpdk_nic/engine/waiting_times.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Milliseconds;
using transport::Time;

constexpr Duration kTick = Milliseconds(1);
// The first sleep after work is bounded. While it lasts, verbs need not wake the helper for their
// retransmission timers, which are later than that.
constexpr Duration kLinger = Milliseconds(20);

// An application thread that makes as many passes within one spin is driving.
constexpr uint64_t kPassesThatDrive = 32;
// Fewer in a tick, and it stopped. More than a program makes that waits for events: each event
// costs it a wake-up of 20 us.
constexpr uint64_t kPassesATickThatDrive = 200;

// The last one: interrupts and everybody else's first threads tend to be on the first.
void PinToLastAllowedProcessor() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

Progress::Progress(Engine& engine, ProgressMode mode) : engine_(engine), mode_(mode) {
  const int error = thread_.Start("uroce-engine", [this] {
    if (mode_ == ProgressMode::kDedicated) {
      RunDedicated();
    } else {
      RunAuto();
    }
  });
  if (error != 0) throw std::system_error(error, std::generic_category(), "engine thread");
}

Progress::~Progress() {
  if (engine_.in_forked_child()) return;
  stopping_.store(true, std::memory_order_relaxed);
  Wake();
  thread_.Join();
}

void Progress::RunDedicated() {
  PinToLastAllowedProcessor();
  PollingPause pause;  // its yields cost little when the processor is really ours
  while (!stopping()) {
    if (engine_.RunIfFree() == Engine::PassResult::kWorked) {
      pause.PollWorked();
    } else if (!pause.PollFailed()) {
      SpinPause();
    }
  }
}

void Progress::RunAuto() {
  // Timers are retransmission timers of microseconds; the default slack is 50 us.
  prctl(PR_SET_TIMERSLACK, 1'000);
  nap_ = kShortestNap;
  bool just_woken = true;
  while (!stopping()) {
    if (RunWhileBusy(just_woken) == Outcome::kApplicationDrives) StandBy();
    just_woken = SleepUntilWoken();
  }
}

// Runs passes until there was nothing to do for kSpin. Who was just woken looks that long in any
// case: to find what it was woken for, or the application that took it.
Progress::Outcome Progress::RunWhileBusy(bool just_woken) {
  const uint64_t passes_before = engine_.application_passes();
  Time give_up = just_woken ? Now() + kSpin : Time{0};
  pause_.PollWorked();
  while (!stopping()) {
    const Engine::PassResult result = engine_.RunIfFree();
    if (engine_.application_passes() - passes_before >= kPassesThatDrive) {
      return Outcome::kApplicationDrives;
    }
    const Time now = Now();
    if (result == Engine::PassResult::kWorked) {
      give_up = now + kSpin;
      pause_.PollWorked();
      nap_ = kShortestNap;
      lingering_ = true;
      continue;
    }
    if (now >= give_up) break;
    if (!pause_.PollFailed()) SpinPause();
  }
  return Outcome::kIdle;
}

void Progress::StandBy() {
  uint64_t passes = engine_.application_passes();
  uint64_t passes_in_tick;
  do {
    thread_.Wait(-1, -1, Now() + kTick);
    const uint64_t before = std::exchange(passes, engine_.application_passes());
    passes_in_tick = passes - before;
  } while (passes_in_tick >= kPassesATickThatDrive && !engine_.answers_awaited() && !stopping());
  lingering_ = true;
}

// Returns whether something woke us, rather than the time that had come.
bool Progress::SleepUntilWoken() {
  const Time latest = lingering_ ? Now() + kLinger : transport::kNever;
  const SleepPlan plan = engine_.PlanSleep(latest);
  switch (plan.kind) {
    case SleepPlan::Kind::kNone:
      return true;
    case SleepPlan::Kind::kNap:
      thread_.Wait(-1, -1, std::min(plan.until, Now() + nap_));
      nap_ = std::min(nap_ * 2, kLongestNap);
      return false;
    case SleepPlan::Kind::kSleep:
      break;
  }
  const bool woken = thread_.Wait(engine_.wait_fd_, -1, plan.until);
  lingering_ = woken;
  engine_.EndSleep();
  return woken;
}

}  // namespace uroce::nic
