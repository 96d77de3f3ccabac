#pragma once

#include "dpdk_nic/engine/engine_options.h"
#include "dpdk_nic/engine/poll_loop.h"

namespace uroce::nic {

class Engine;

// The progress thread of an engine: drives it when no application thread does.
//
// A progress thread that sleeps has announced it (PacketPort::BeginSleep), and only then do peers
// send wakeups. If it stands by, it has not: the application takes the frames. If the application
// stops, frames wait for the thread's next look (ProgressPolicy).
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
  SleepPlan PlanSleep(transport::Time latest) override;
  void EndSleep(const SleepPlan& plan) override;
  ProgressPolicy::Company company() override;
  void SetStandsBy(bool does) override;

  Engine& engine_;
  PollLoop loop_{*this};
};

}  // namespace uroce::nic
