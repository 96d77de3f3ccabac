#pragma once

#include <optional>

#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/engine_clock.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/engine/poll_loop.h"
#include "dpdk_nic/switch/forwarder.h"

namespace uroce::nic {

// Drives a forwarder. Holds the lock for one pass. With a processor of its own it never sleeps.
class SwitchThread final : private PollLoop::Source {
 public:
  SwitchThread(Forwarder& forwarder, EngineLock& lock, std::optional<int> cpu)
      : lock_(lock), forwarder_(forwarder), cpu_(cpu) {}
  // Ends the thread.
  ~SwitchThread() override { loop_.Stop(); }
  SwitchThread(const SwitchThread&) = delete;
  SwitchThread& operator=(const SwitchThread&) = delete;

  // Returns 0 or an errno value. Does nothing if the thread runs already. Not for concurrent calls.
  int Start();
  // Wakes the thread for work that no frame announces. To be called without the lock; any thread.
  void Wake() { loop_.Wake(); }

 private:
  bool RunPass() override;
  SleepPlan PlanSleep(transport::Time latest) override;
  void EndSleep(const SleepPlan& plan) override;

  EngineLock& lock_;
  Forwarder& forwarder_ UROCE_GUARDED_BY(lock_);
  const std::optional<int> cpu_;
  PollLoop loop_{*this};
  EngineClock clock_ UROCE_GUARDED_BY(lock_);
};

}  // namespace uroce::nic
