#pragma once

#include "transport/time.h"

namespace uroce::nic {

// Decides whether the helper's pass answers at once, or holds its answers for more frames.
//
// One ACK covers all messages before it. A thread that receives small messages faster than the peer
// sends them would answer each one alone, which costs both sides more than the message: the ring's
// lines move back and forth, and each ACK stops the sender. So while frames arrive close together
// their answers wait for more. A frame that arrives alone is answered at once.
class AnswerHold {
 public:
  static constexpr transport::Duration kCloseTogether{500};
  static constexpr transport::Duration kLongest{400};

  // Whether a pass at `now` that received so many frames holds its answers; passes must follow.
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
  // So long ago that the first frame counts as alone.
  transport::Time received_at_{-kCloseTogether.ns};
  transport::Time until_{};
  bool holds_ = false;
};

}  // namespace uroce::nic
