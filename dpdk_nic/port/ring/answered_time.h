#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Up to which time the other side of a ring has answered everything that was sent to it. The ring
// tells positions only; this class asks now and then, and remembers when.
class AnsweredTime {
 public:
  // Frames that were sent at `until` or before need no answer any more.
  explicit AnsweredTime(transport::Time until = {}) : until_(until), asked_at_(until) {}

  // The ring has sent so many frames, of which the other side has answered so many. `now` is not
  // before the time of any of them.
  void Update(transport::Time now, uint64_t sent, uint64_t answered) {
    if (answered >= asked_) {
      until_ = std::max(until_, asked_at_);
      asked_ = sent;
      asked_at_ = now;
    }
    if (answered == sent) until_ = now;
  }
  // Whether everything that was sent at `time` or before is answered.
  bool Covers(transport::Time time) const { return time < until_; }
  transport::Time until() const { return until_; }

 private:
  transport::Time until_;
  uint64_t asked_ = 0;  // frames sent at asked_at_, of which some were not answered then
  transport::Time asked_at_;
};

}  // namespace uroce::nic
