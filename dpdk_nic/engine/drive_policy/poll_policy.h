#pragma once

#include <cstdint>

#include "dpdk_nic/engine/drive_policy/limits.h"
#include "transport/time.h"

namespace uroce::nic {

// Decides how a polling thread pauses after a poll that found nothing. At first it does not pause,
// which is fastest; then it yields the processor after each poll, because spinning threads that
// outnumber the processors otherwise wait for each other's time slices (a round trip of
// milliseconds instead of microseconds). If its last yield let another thread run, it yields after
// the first poll.
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
// Each thread has its own. Has no clock.
class PollPolicy {
 public:
  using Time = transport::Time;
  using Duration = transport::Duration;

  enum class Pause : uint8_t {
    kNone,
    kYield,   // the processor, then Yielded() says whether to sleep for a moment
    kMoment,  // a sleep of the shortest time that there is
    kNap,     // a sleep that a real-time thread has, too
  };

  // `has_one_processor`: the machine has, not the process. An MPI rank that is bound to a processor
  // has peers on others.
  Pause PollFailed(bool has_one_processor) {
    refusals_ = 0;
    // With a single processor nothing can have changed while the thread spun.
    const bool spins = ++empty_polls_ < drive::kPollsBeforeYield && !has_one_processor;
    return spins ? Pause::kNone : Pause::kYield;
  }
  // On a shared processor, the next poll that fails yields at once.
  void PollWorked() {
    empty_polls_ = shared_yields_ != 0 ? drive::kPollsBeforeYield : 0;
    refusals_ = 0;
  }
  // Another thread polls already. It may have lost its processor to this one, which may be of a
  // real-time class and never yield to it: after many refusals this one sleeps for a moment, too.
  Pause PollRefused(bool has_one_processor);
  // A yield took from `before` to `after`.
  Pause Yielded(Time before, Time after);

  // Whether a recent yield gave the processor away for long.
  bool IsHogged(Time now) const { return now < hogged_until_; }

 private:
  uint32_t empty_polls_ = 0;
  uint32_t refusals_ = 0;       // in a row
  uint32_t shared_yields_ = 0;  // in a row, in which another thread ran
  Duration stay_;
  Time next_step_aside_;
  Duration hogged_;
  Time hogged_until_;
};

}  // namespace uroce::nic
