#pragma once

#include "transport/time.h"

namespace uroce::nic {

// Whether the answers to what a pass received wait for more to answer.
//
// One ACK covers all messages before it. A thread that takes small messages faster than they come
// would answer each by itself, which costs both sides more than the message: the lines of the ring
// move back and forth, and the sender is stopped for each. So while frames come close together
// their answers wait for some more. What comes alone is answered at once.
class AnswerHold {
 public:
  static constexpr transport::Duration kCloseTogether{500};
  static constexpr transport::Duration kLongest{400};

  // Of a pass at `now` that received so many frames. Passes have to follow while it holds.
  bool Holds(transport::Time now, int received) {
    if (received != 0) {
      const bool is_close = now - received_at_ < kCloseTogether;
      received_at_ = now;
      if (is_close && !holds_) {
        holds_ = true;
        until_ = now + kLongest;
      }
    }
    holds_ = holds_ && now < until_;
    return holds_;
  }

 private:
  // Long ago.
  transport::Time received_at_{-kCloseTogether.ns};
  transport::Time until_{};
  bool holds_ = false;
};

}  // namespace uroce::nic
