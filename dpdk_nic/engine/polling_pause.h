#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// What a polling thread does when a poll found nothing: first nothing, for that is fastest; then it
// yields its processor after each poll, because spinning threads that outnumber the processors
// otherwise wait for each other's time slices (a round trip of milliseconds instead of
// microseconds). Where its last yield let another thread run, it yields after the first poll.
//
// Yielding hides a trap: two ends that take turns on one processor keep both from looking idle or
// overloaded, and the scheduler leaves them there, at five times the latency, though another
// processor has nothing to do. A thread that finds it shares its processor therefore sleeps for a
// moment now and then: a thread that wakes up is given an idle processor if there is one.
//
// A thread on the same processor that never yields, such as one that spins on memory, keeps it for
// a whole time slice. A sleeper gets it back as soon as there is something to do: to sleep is
// better than to yield then (IsHogged).
//
// One a thread.
class PollingPause {
 public:
  void PollWorked();
  // Returns whether it yielded.
  bool PollFailed();
  // Another thread is at work on what was to be polled. It may have lost its processor to this one,
  // which is of a real-time class and yields to no other: refused for long, it sleeps for a moment.
  void PollRefused();

  // Whether a yield took that long a moment ago.
  bool IsHogged(transport::Time now) const { return now < hogged_until_; }

 private:
  bool Pause();
  void Yield();
  void StepAside(transport::Time now);

  uint32_t fruitless_polls_ = 0;
  uint32_t refusals_ = 0;       // in a row
  uint32_t shared_yields_ = 0;  // in a row, in which another thread ran
  transport::Duration interval_;
  transport::Time next_step_aside_;
  transport::Duration hog_interval_;
  transport::Time hogged_until_;
};

}  // namespace uroce::nic
