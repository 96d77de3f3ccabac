#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "transport/time.h"

namespace uroce::transport::simulation {

// A discrete-event simulator: a clock that jumps from event to event. Events of the same time run
// in the order they were scheduled in, so a run is a function of its seed alone.
class Simulator {
 public:
  using Action = std::function<void()>;

  Time now() const { return now_; }
  void At(Time time, Action action);
  void After(Duration delay, Action action) { At(now_ + delay, std::move(action)); }

  // Runs the next event. False if there is none.
  bool RunOne();

  uint64_t events_run() const { return events_run_; }

 private:
  struct Event {
    Time time;
    uint64_t sequence;
    Action action;
  };
  // Orders the heap so that the earliest event is on top.
  static bool Later(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
  }

  Time now_;
  std::vector<Event> heap_;
  uint64_t next_sequence_ = 0;
  uint64_t events_run_ = 0;
};

}  // namespace uroce::transport::simulation
