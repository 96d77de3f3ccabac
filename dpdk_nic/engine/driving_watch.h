#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Decides how long the helper stands by and leaves the frames to an application thread that makes
// passes.
//
// A program that polls completion queues handles frames sooner than the helper would. A program
// that polls for a while and then spins on memory that its peer writes to (ib_write_lat, rings
// filled by RDMA WRITEs) handles none: frames wait until the helper looks again. So the first looks
// come soon and only find out whether the program has stopped; later looks, whether it drives
// enough. After a stop the helper does not stand by for a time, which doubles with each stop.
//
//                        looks after 100 us, 200 us ... 1 ms each
//   helper polls -------------------------------------------------> helper stands by
//        ^     ^                                                        |        |
//        |     +--- stopped within 10 ms: not for 1, 2 ... 64 ms -------+        |
//        +---------- stopped later: may stand by again at once ------------------+
class DrivingWatch {
 public:
  static constexpr transport::Duration kFirstTick = transport::Microseconds(100);
  static constexpr transport::Duration kLongestTick = transport::Milliseconds(1);
  static constexpr transport::Duration kProof = transport::Milliseconds(10);
  static constexpr transport::Duration kShortestDoubt = transport::Milliseconds(1);
  static constexpr transport::Duration kLongestDoubt = transport::Milliseconds(64);

  bool MayBegin(transport::Time now) const { return now >= not_before_; }

  // `work`: DrivingNotes::application_work() at `now`.
  void Begin(transport::Time now, uint64_t work);
  transport::Time next_look() const { return looked_at_ + tick_; }
  // To be called at next_look() or before. `in_engine`: a thread of the application makes a pass or
  // a verb now. That counts as work when it ends, and over a slow port it takes longer than a tick.
  // False: the application no longer drives.
  bool Look(transport::Time now, uint64_t work, bool in_engine);

 private:
  transport::Time began_at_;
  transport::Time looked_at_;
  uint64_t work_ = 0;           // at looked_at_
  bool was_in_engine_ = false;  // at looked_at_
  transport::Duration tick_;
  transport::Duration doubt_;
  transport::Time not_before_;
};

}  // namespace uroce::nic
