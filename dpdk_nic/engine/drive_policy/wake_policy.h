#pragma once

#include "transport/time.h"

namespace uroce::nic {

// Decides whether a verb or a pass of an application wakes the progress thread when it ends. Used
// under the engine's lock; has no clock.
class WakePolicy {
 public:
  using Time = transport::Time;

  // The progress thread sleeps until `until`: it has to be woken for anything earlier.
  void SleepBegins(Time until) { sleeps_until_ = until; }
  void SleepEnds() { sleeps_until_ = {}; }
  bool is_asleep() const { return sleeps_until_ > Time{0}; }

  // An application thread may sleep until an event comes.
  bool application_waits() const { return application_waits_; }

  // The work that the engine has left.
  struct Left {
    bool has_frames;
    Time next_deadline;
    bool is_event_awaited;
    bool is_watched;  // the progress thread stands by
  };
  // Whether to wake the thread: it sleeps beyond the time when something is to be done, or it
  // stands by while the application begins to wait for events.
  bool Wakes(const Left& left) {
    bool wakes = is_asleep() && (left.has_frames || left.next_deadline < sleeps_until_);
    if (wakes) sleeps_until_ = {};
    if (left.is_event_awaited != application_waits_) {
      application_waits_ = left.is_event_awaited;
      wakes |= application_waits_ && left.is_watched;
    }
    return wakes;
  }

 private:
  Time sleeps_until_;  // 0: no wakeup
  bool application_waits_ = false;
};

}  // namespace uroce::nic
