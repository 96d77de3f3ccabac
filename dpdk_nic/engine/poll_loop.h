#pragma once

#include <atomic>
#include <optional>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/engine/sleep_plan.h"
#include "transport/time.h"

namespace uroce::nic {

// The thread that drives an engine or a switch.
//
//        work, or woken                    another thread
//        a moment ago                      drives
//         +--------+                        +------+
//         v        |                        v      |
//       +------------+                   +------------+
//       |  polling   | ----------------> | standing   |
//       +------------+                   |    by      |
//         ^        | nothing to do       +------------+
//         |        v for a while               | it stopped
//       +------------+                         |
//       |  sleeping  | <-----------------------+
//       +------------+
//
// A source that cannot wake the thread is polled instead, with naps in between. They double from 20
// us to 1 ms while there is nothing to do, which takes about 2% of a processor.
class PollLoop {
 public:
  // The engine or switch that is driven. The thread makes all calls, without holding a lock.
  class Source {
   public:
    virtual ~Source() = default;
    // Makes one pass; returns whether there was work.
    virtual bool RunPass() = 0;
    // Called when there was nothing to do for a while.
    virtual SleepPlan PlanSleep() = 0;
    // Called after the plan was carried out, also if it was not to sleep. `woken`: something other
    // than the time ended the sleep.
    virtual void EndSleep(const SleepPlan& plan, bool woken) = 0;
    // Whether another thread drives. Called after each pass.
    virtual bool IsDrivenElsewhere() { return false; }
    // Whether another thread made passes since the last call.
    virtual bool HasCompany() { return false; }
    // Returns when no other thread drives any more.
    virtual void StandBy() {}
  };

  explicit PollLoop(Source& source) : source_(source) {}
  PollLoop(const PollLoop&) = delete;
  PollLoop& operator=(const PollLoop&) = delete;

  // Starts the thread, whose name the kernel cuts at 15 bytes. Returns 0 or an errno value. Once.
  int Start(const char* name);
  // The same for a thread that never sleeps; `cpu`: the processor to pin it to, if any.
  int StartSpinning(const char* name, std::optional<int> cpu);
  // Ends the thread, if there is one. To be called before the destructor, except in a forked child,
  // where the thread does not exist.
  void Stop();

  // Ends a sleep, a nap or a StandBy, or the next one. Any thread.
  void Wake() { thread_.Wake(); }

  // For StandBy: sleeps until Wake is called or `until` has come.
  void Wait(transport::Time until) { thread_.Wait(-1, -1, until); }
  bool is_running() const { return is_running_; }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

 private:
  int StartThread(const char* name, void (PollLoop::*run)());
  void Run();
  void Spin();
  bool PollWhileBusy(bool just_woken);
  bool SleepUntilWoken();

  Source& source_;
  BackgroundThread thread_;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
  // Used by the thread itself.
  std::optional<int> cpu_;
  PollingPause pause_;
  transport::Duration nap_;
};

}  // namespace uroce::nic
