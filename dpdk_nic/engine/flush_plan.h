#pragma once

#include <algorithm>

#include "transport/time.h"

namespace uroce::nic {

// Until when frames wait for others, so that one system call takes them all.
//
// Of verbs: while answers are awaited others will come to go with these; a message that is alone
// goes at once. Of passes: an application that has got something is likely to reply, and the
// answers go with that, or by its next pass that gets nothing; should it make none, by the helper,
// which looks after it (DrivingWatch), or at exit(). A process that is killed or calls _exit()
// right then leaves them unsent.
class FlushPlan {
 public:
  // After the last flush. Some system calls long.
  static constexpr transport::Duration kLongestForOthers = transport::Microseconds(20);
  static constexpr transport::Duration kLongestForReply = transport::Microseconds(10);

  // A verb sent something.
  void AfterVerb(transport::Time now, bool awaits_answers) {
    Limit(awaits_answers ? flushed_at_ + kLongestForOthers : now);
  }
  // A pass is over; by an application, which may make others, or by the helper.
  void AfterPass(transport::Time now, bool of_application, bool has_received, bool has_sent) {
    const bool may_reply = of_application && has_received;
    if (has_sent) Limit(may_reply ? now + kLongestForReply : now);
    if (answers_wait_ && !has_received) Limit(now);
    answers_wait_ |= has_sent && may_reply;
  }
  bool IsDue(transport::Time now) const { return now >= limit_; }
  void AfterFlush(transport::Time now) {
    limit_ = transport::kNever;
    flushed_at_ = now;
    answers_wait_ = false;
  }

 private:
  void Limit(transport::Time limit) { limit_ = std::min(limit_, limit); }

  transport::Time limit_ = transport::kNever;
  transport::Time flushed_at_;
  bool answers_wait_ = false;
};

}  // namespace uroce::nic
