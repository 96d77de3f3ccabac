#pragma once

#include <atomic>
#include <optional>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/engine/engine_clock.h"
#include "dpdk_nic/engine/engine_lock.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/switch/forwarder.h"
#include "transport/time.h"

namespace uroce::nic {

// Drives a forwarder: makes one pass after the other while there are frames, and sleeps when there
// are none. With a processor of its own it never sleeps.
//
// This thread holds the lock for one pass.
class SwitchThread {
 public:
  SwitchThread(Forwarder& forwarder, EngineLock& lock, std::optional<int> cpu)
      : lock_(lock), forwarder_(forwarder), cpu_(cpu) {}
  // Ends it.
  ~SwitchThread();
  SwitchThread(const SwitchThread&) = delete;
  SwitchThread& operator=(const SwitchThread&) = delete;

  // Returns 0 or an errno value. Does nothing if it runs already. One thread.
  int Start();
  // There is something to do that no frame tells of. To be called without the lock; any thread.
  void Wake() { thread_.Wake(); }

 private:
  void Run();
  void RunPinned();
  void RunWhileBusy(bool just_woken);
  bool RunOnce();
  bool SleepUntilWoken();
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  EngineLock& lock_;
  Forwarder& forwarder_ UROCE_GUARDED_BY(lock_);
  const std::optional<int> cpu_;
  BackgroundThread thread_;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
  // Of the thread itself.
  EngineClock clock_;
  PollingPause pause_;
  transport::Duration nap_;
};

}  // namespace uroce::nic
