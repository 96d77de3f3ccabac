#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Pauses a polling thread after a poll that found nothing. At first it does not pause, which is
// fastest; then it yields the processor after each poll, because spinning threads that outnumber
// the processors otherwise wait for each other's time slices (a round trip of milliseconds instead
// of microseconds). If its last yield let another thread run, it yields after the first poll.
//
// Yielding has a drawback: two peers that take turns on one processor look neither idle nor
// overloaded, and the scheduler leaves them there, at five times the latency, though another
// processor is idle. A thread that shares its processor therefore sleeps for a moment now and then:
// the scheduler gives a thread that wakes up an idle processor if there is one.
//
// A thread on the same processor that never yields, such as one that spins on memory, keeps it for
// a whole time slice. A sleeping thread gets the processor back as soon as there is something to
// do, so sleeping is then better than yielding (IsHogged).
//
// Each thread has its own.
class PollingPause {
 public:
  void PollWorked();
  // Returns whether it yielded.
  bool PollFailed();
  // Another thread polls already. It may have lost its processor to this one, which may be of a
  // real-time class and never yield to it: after many refusals this one sleeps for a moment.
  void PollRefused();

  // Whether a recent yield gave the processor away for long.
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
