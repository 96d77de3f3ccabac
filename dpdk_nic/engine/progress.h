#pragma once

#include <cstdint>

#include "dpdk_nic/engine/driving_watch.h"
#include "dpdk_nic/engine/engine_options.h"
#include "dpdk_nic/engine/poll_loop.h"

namespace uroce::nic {

class Engine;

// The helper thread of an engine: drives it when no application thread does.
//
// A helper that sleeps has announced it (PacketPort::BeginSleep), and only then do peers send
// wakeups. A helper that stands by has not: the application takes the frames. If the application
// stops, frames wait for the next look of the DrivingWatch.
class Progress final : private PollLoop::Source {
 public:
  Progress(Engine& engine, const EngineOptions& options);
  // Ends the thread; a forked child has none.
  ~Progress() override;
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Ends a sleep. Any thread.
  void Wake() { loop_.Wake(); }

 private:
  bool RunPass() override;
  SleepPlan PlanSleep() override;
  void EndSleep(const SleepPlan& plan, bool woken) override;
  bool IsDrivenElsewhere() override;
  bool HasCompany() override;
  void StandBy() override;

  Engine& engine_;
  PollLoop loop_{*this};
  DrivingWatch watch_;
  uint64_t work_before_ = 0;  // application_work() when the application last seemed not to drive
  uint64_t work_seen_ = 0;    // application_work() at the last HasCompany
  bool lingering_ = true;     // worked since the last long sleep
};

}  // namespace uroce::nic
