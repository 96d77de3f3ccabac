#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Decides how long frames wait for further ones, so that one system call sends them all.
//
// Frames of verbs: while earlier requests are unanswered the program will post more, and frames
// wait for those; a lone message goes at once. A program whose passes twice receive nothing posts
// no more: its queue is full, or it waits for a result. Frames of passes: an application that
// received something is likely to reply, so the answers wait for the reply, or for its next pass
// that receives nothing. If it makes none, the helper, which watches it (DrivingWatch), or exit()
// sends them. A process that is killed or calls _exit() before leaves them unsent.
class FlushPlan {
 public:
  // From the last flush, and from the pass that answers. Some system calls long.
  static constexpr transport::Duration kLongestForOthers = transport::Microseconds(20);
  static constexpr transport::Duration kLongestForReply = transport::Microseconds(10);
  // As many frames as Linux takes in one call with UDP_SEGMENT. Half of what perftest has in flight
  // by default: the peer answers these while the program posts the others.
  static constexpr uint32_t kMostForOthers = 64;

  // To be called for each frame that is given to the port.
  void CountFrame() { ++frames_; }
  // To be called after a verb that sent a frame.
  void AfterVerb(transport::Time now, bool awaits_answers) {
    const bool waits_for_others = awaits_answers && frames_ < kMostForOthers;
    Limit(waits_for_others ? flushed_at_ + kLongestForOthers : now);
    has_looked_in_vain_ = false;
  }
  // To be called after a pass, of an application thread, which may make more, or of the helper.
  void AfterPass(transport::Time now, bool of_application, bool has_received, bool has_sent) {
    const bool may_reply = of_application && has_received;
    if (has_sent) Limit(may_reply ? now + kLongestForReply : now);
    if (answers_wait_ && !has_received) Limit(now);
    answers_wait_ |= has_sent && may_reply;
    const bool is_in_vain = of_application && !has_received;
    if (is_in_vain && has_looked_in_vain_ && frames_ != 0) Limit(now);
    has_looked_in_vain_ = is_in_vain;
  }
  bool IsDue(transport::Time now) const { return now >= limit_; }
  void AfterFlush(transport::Time now) {
    limit_ = transport::kNever;
    flushed_at_ = now;
    frames_ = 0;
    answers_wait_ = false;
  }

 private:
  void Limit(transport::Time limit) { limit_ = std::min(limit_, limit); }

  transport::Time limit_ = transport::kNever;
  transport::Time flushed_at_;
  uint32_t frames_ = 0;  // since the last flush
  bool answers_wait_ = false;
  bool has_looked_in_vain_ = false;  // the application's last pass received nothing
};

}  // namespace uroce::nic
