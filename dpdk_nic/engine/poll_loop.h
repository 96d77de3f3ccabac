#pragma once

#include <atomic>
#include <optional>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/engine/drive_policy/progress_policy.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/engine/sleep_plan.h"
#include "transport/time.h"

namespace uroce::nic {

// The thread that drives an engine or a switch: carries out what ProgressPolicy decides.
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
    // Called when there was nothing to do for a while. The sleep ends at `latest` at the latest.
    virtual SleepPlan PlanSleep(transport::Time latest) = 0;
    // Called after the plan was carried out, also if it was not to sleep.
    virtual void EndSleep(const SleepPlan& plan) = 0;
    // The work of other threads. A switch has none.
    virtual ProgressPolicy::Company company() { return {}; }
    // The thread begins or ends to stand by.
    virtual void SetStandsBy(bool /*does*/) {}
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

  // Ends a sleep, a nap or standing by, or the next one. Any thread.
  void Wake() { thread_.Wake(); }
  bool is_running() const { return is_running_; }

 private:
  using Step = ProgressPolicy::Step;

  int StartThread(const char* name, void (PollLoop::*run)());
  void Run();
  void Spin();
  Step Carry(const Step& step);
  Step RunPass();
  Step StandBy(transport::Time until);
  Step Sleep(transport::Time latest);

  Source& source_;
  BackgroundThread thread_;
  bool is_running_ = false;
  std::atomic<bool> stopping_{false};
  // Used by the thread itself.
  std::optional<int> cpu_;
  ProgressPolicy policy_;
  PollingPause pause_;
  bool stands_by_ = false;
};

}  // namespace uroce::nic
