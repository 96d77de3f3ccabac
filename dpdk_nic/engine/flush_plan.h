#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// Until when frames wait for others, so that one system call takes them all.
//
// Of verbs: while answers are awaited others will come to go with these; a message that is alone
// goes at once. A program that looks for completions twice and finds none has no others: its queue
// is full, or it wants to know. Of passes: an application that has got something is likely to
// reply, and the answers go with that, or by its next pass that gets nothing; should it make none,
// by the helper, which looks after it (DrivingWatch), or at exit(). A process that is killed or
// calls _exit() right then leaves them unsent.
class FlushPlan {
 public:
  // After the last flush. Some system calls long.
  static constexpr transport::Duration kLongestForOthers = transport::Microseconds(20);
  static constexpr transport::Duration kLongestForReply = transport::Microseconds(10);
  // As many as Linux takes in one call of UDP_SEGMENT. Half of what perftest has in flight by
  // default: the peer answers these while the others are being posted.
  static constexpr uint32_t kMostForOthers = 64;

  // A frame was given to the port.
  void CountFrame() { ++frames_; }
  // A verb sent something.
  void AfterVerb(transport::Time now, bool awaits_answers) {
    const bool waits_for_others = awaits_answers && frames_ < kMostForOthers;
    Limit(waits_for_others ? flushed_at_ + kLongestForOthers : now);
    has_looked_in_vain_ = false;
  }
  // A pass is over; by an application, which may make others, or by the helper.
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
  uint32_t frames_ = 0;  // since then
  bool answers_wait_ = false;
  bool has_looked_in_vain_ = false;  // since the last verb that sent something
};

}  // namespace uroce::nic
