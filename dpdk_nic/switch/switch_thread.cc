#include "dpdk_nic/switch/switch_thread.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <string>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/base/log.h"
#include "dpdk_nic/engine/waiting_times.h"

namespace uroce::nic {

using transport::Time;
using Kind = SleepPlan::Kind;

SwitchThread::~SwitchThread() {
  if (!is_running_) return;
  stopping_.store(true, std::memory_order_relaxed);
  Wake();
  thread_.Join();
}

int SwitchThread::Start() {
  if (is_running_) return 0;
  const int error = thread_.Start("uroce-switch", [this] { cpu_ ? RunPinned() : Run(); });
  is_running_ = error == 0;
  return error;
}

void SwitchThread::Run() {
  // Naps of microseconds; the default slack is 50 us.
  prctl(PR_SET_TIMERSLACK, 1'000);
  nap_ = kShortestNap;
  bool just_woken = true;
  while (!stopping()) {
    RunWhileBusy(just_woken);
    just_woken = SleepUntilWoken();
  }
}

void SwitchThread::RunPinned() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(*cpu_, &one);
  sched_setaffinity(0, sizeof one, &one);
  while (!stopping()) {
    if (RunOnce()) {
      pause_.PollWorked();
    } else if (!pause_.PollFailed()) {  // its yields cost little when the processor is really ours
      SpinPause();
    }
  }
}

bool SwitchThread::RunOnce() {
  if (!lock_.TryLock()) return false;
  const bool worked = forwarder_.RunOnce(clock_.Now());
  const std::string sentence = forwarder_.TakeSentence();
  lock_.Unlock();
  if (!sentence.empty()) [[unlikely]]
    Log(LogLevel::kWarning, sentence);
  return worked;
}

// Makes passes until there was nothing to do for kSpin. After a nap or a deadline one pass is
// enough.
void SwitchThread::RunWhileBusy(bool just_woken) {
  Time give_up = just_woken ? Now() + kSpin : Time{0};
  pause_.PollWorked();
  while (!stopping()) {
    const bool worked = RunOnce();
    const Time now = Now();
    if (worked) {
      give_up = now + kSpin;
      pause_.PollWorked();
      nap_ = kShortestNap;
      continue;
    }
    if (now >= give_up) return;
    if (!pause_.PollFailed()) SpinPause();
  }
}

// Returns whether something woke us, rather than the time that had come.
bool SwitchThread::SleepUntilWoken() {
  lock_.Lock();
  const SleepPlan plan = forwarder_.PlanSleep();
  const int wire_fd = forwarder_.wire_fd();
  const int uplinks_fd = forwarder_.uplinks_fd();
  lock_.Unlock();
  if (plan.kind == Kind::kNone) return true;
  Time until = plan.until;
  if (plan.kind == Kind::kNap) {
    until = std::min(until, Now() + nap_);
    nap_ = std::min(nap_ * 2, kLongestNap);
  }
  const bool sleeps = plan.kind == Kind::kSleep;
  const bool woken = thread_.Wait(sleeps ? wire_fd : -1, uplinks_fd, until);
  lock_.Lock();
  forwarder_.EndSleep();
  lock_.Unlock();
  return woken;
}

}  // namespace uroce::nic
