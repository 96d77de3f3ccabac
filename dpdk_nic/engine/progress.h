#pragma once

#include <atomic>
#include <cstdint>

#include "dpdk_nic/base/background_thread.h"
#include "dpdk_nic/engine/polling_pause.h"
#include "dpdk_nic/engine/progress_mode.h"
#include "transport/time.h"

namespace uroce::nic {

class Engine;

// The helper thread of an engine: drives it when no application thread does.
//
//              work, or polled soon after           an application thread
//                  a wake-up                        polls all the time
//                 +--------+                          +------+
//                 v        |                          v      |
//   +------+    +------------+    it polls often    +----------+
//   | wake | -> |  running   | -------------------> | standing |  looks once a tick
//   +------+    |            |                      |    by    |  whether it still polls
//      ^        +------------+                      +----------+
//      |              | nothing to do for a while        | it stopped
//      |              v                                  |
//      |        +------------+                           |
//      +------- |  sleeping  | <-------------------------+
//   frame,      +------------+
//   deadline,
//   verb that cannot wait
//
// Sleeping costs nothing: the other side writes an eventfd if, and only if, we said that we sleep.
// Standing by, we did not: the application takes the frames. If it then stops without a word, what
// arrives waits for a tick at most.
//
// Ports that cannot wake anybody are polled instead, with naps that grow to a tick: an idle process
// then runs a thousand passes a second, about 2% of a processor.
class Progress {
 public:
  Progress(Engine& engine, ProgressMode mode);
  // Ends the thread. In a forked child there is none.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Ends a sleep. Any thread.
  void Wake() { thread_.Wake(); }

 private:
  enum class Outcome { kIdle, kApplicationDrives };

  void RunAuto();
  void RunDedicated();
  Outcome RunWhileBusy(bool just_woken);
  void StandBy();
  bool SleepUntilWoken();
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }

  Engine& engine_;
  const ProgressMode mode_;
  BackgroundThread thread_;
  std::atomic<bool> stopping_{false};
  PollingPause pause_;
  transport::Duration nap_;
  bool lingering_ = true;  // worked since the last long sleep
};

}  // namespace uroce::nic
