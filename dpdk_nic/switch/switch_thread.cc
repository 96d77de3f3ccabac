#include "dpdk_nic/switch/switch_thread.h"

namespace uroce::nic {

int SwitchThread::Start() {
  constexpr char kName[] = "uroce-switch";
  if (loop_.is_running()) return 0;
  return cpu_ ? loop_.StartSpinning(kName, cpu_) : loop_.Start(kName);
}

bool SwitchThread::RunPass() {
  if (!lock_.TryLock()) return false;
  const bool worked = forwarder_.RunOnce(clock_.Now());
  lock_.Unlock();
  return worked;
}

// Sleeps longer than `latest`: what the thread is to do is announced to it.
SleepPlan SwitchThread::PlanSleep(transport::Time /*latest*/) {
  const EngineLockGuard guard(lock_);
  return forwarder_.PlanSleep();
}

void SwitchThread::EndSleep(const SleepPlan& plan) {
  if (plan.kind == SleepPlan::Kind::kNone) return;
  const EngineLockGuard guard(lock_);
  forwarder_.EndSleep();
}

}  // namespace uroce::nic
