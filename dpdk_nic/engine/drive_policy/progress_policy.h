#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Decides what the thread that drives an engine or a switch does next. Has no clock and no thread:
// PollLoop carries the steps out.
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
// Standing by. A program that polls completion queues handles frames sooner than the progress
// thread would. A program that polls for a while and then spins on memory that its peer writes to
// (ib_write_lat, rings filled by RDMA WRITEs) handles none: frames wait until this thread looks
// again. So the first looks come soon and only find out whether the program has stopped; later
// looks, whether it drives enough. After a stop the thread does not stand by for a time, which
// doubles with each stop.
//
//            looks after 100 us, 200 us ... 1 ms each
//   polling ------------------------------------------> standing by
//     ^   ^                                               |      |
//     |   +-- stopped within 10 ms: not for 1 to 64 ms ---+      |
//     +------ stopped later: may stand by again at once ---------+
class ProgressPolicy {
 public:
  using Time = transport::Time;
  using Duration = transport::Duration;

  // The work of other threads, read without a lock.
  struct Company {
    // Grows with each pass of an application thread and with the work in it.
    uint64_t application_work = 0;
    bool application_waits = false;  // it may be asleep until an event comes
    bool is_in_engine = false;       // it makes a pass or a verb now
    bool awaits_answer = false;      // it waits for an answer that only a pass brings
  };

  enum class Do : uint8_t {
    kPass,
    kPause,    // as PollPolicy says after an empty poll, then a pass
    kStandBy,  // until `until`, or woken
    kSleep,    // until `until`, or woken; the source may know of something earlier
  };
  struct Step {
    Do what;
    Time until = {};
  };

  Step Begin(Time now, const Company& company);
  // `is_hogged`: PollPolicy::IsHogged at `now`.
  Step AfterPass(Time now, bool has_worked, bool is_hogged, const Company& company);
  Step AfterPause() const { return {Do::kPass}; }
  Step AfterStandBy(Time now, const Company& company);

  // How the source lets the thread sleep.
  enum class Slept : uint8_t {
    kNone,  // not at all: there is work
    kNap,   // for a moment: the port is full or cannot wake the thread
    kSleep
  };
  // When a nap that begins at `now` ends.
  Time NapEnd(Time now);
  // `is_woken`: something other than the time ended the sleep. Polls for a moment then, to find the
  // work, or the thread that took it.
  Step AfterSleep(Time now, Slept slept, bool is_woken, const Company& company);

 private:
  Step BeginPolling(Time now, bool is_woken, const Company& company);
  Step BeginStandBy(Time now, const Company& company);
  Step BeginSleep(Time now) const;
  bool StillDrives(Time now, const Company& company);

  // Polling.
  Time gives_up_at_;
  uint64_t work_seen_ = 0;    // application_work when a hogged processor was last noticed
  uint64_t work_before_ = 0;  // application_work when the application last seemed not to drive
  // Standing by.
  Time began_at_;
  Time looked_at_;
  uint64_t work_at_look_ = 0;
  bool was_in_engine_ = false;  // at looked_at_
  Duration next_look_;
  Duration doubt_;
  Time not_before_;
  // Sleeping.
  bool lingers_ = true;  // worked since the last long sleep
  Duration nap_;
};

}  // namespace uroce::nic
