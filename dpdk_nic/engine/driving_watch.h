#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Whether an application thread that makes passes is to be trusted with the frames, while the
// helper stands by.
//
// A program that polls completion queues takes frames faster than the helper would. One that polls
// them for a while and then spins on memory that its peer writes to (ib_write_lat, rings filled by
// RDMA WRITEs) takes none then: what arrives waits until the helper looks again. So the first looks
// come soon and find out whether it stopped; later ones, whether it drives enough. A thread that
// stopped is not trusted for a time, twice as long each time.
//
//                        looks after 100 us, 200 us ... 1 ms each
//   helper polls -------------------------------------------------> helper stands by
//        ^     ^                                                        |        |
//        |     +---- it stopped within 10 ms: 1 ms, 2 ms ... 64 ms -----+        |
//        +---------- it stopped later: any time ---------------------------------+
class DrivingWatch {
 public:
  static constexpr transport::Duration kFirstTick = transport::Microseconds(100);
  static constexpr transport::Duration kLongestTick = transport::Milliseconds(1);
  static constexpr transport::Duration kProof = transport::Milliseconds(10);
  static constexpr transport::Duration kShortestDoubt = transport::Milliseconds(1);
  static constexpr transport::Duration kLongestDoubt = transport::Milliseconds(64);

  bool MayBegin(transport::Time now) const { return now >= not_before_; }

  // `work` is DrivingNotes::application_work() at that time.
  void Begin(transport::Time now, uint64_t work);
  transport::Time next_look() const { return looked_at_ + tick_; }
  // The next look, or an earlier one. False if it drives no more.
  bool Look(transport::Time now, uint64_t work);

 private:
  transport::Time began_at_;
  transport::Time looked_at_;
  uint64_t work_ = 0;  // then
  transport::Duration tick_;
  transport::Duration doubt_;
  transport::Time not_before_;
};

}  // namespace uroce::nic
