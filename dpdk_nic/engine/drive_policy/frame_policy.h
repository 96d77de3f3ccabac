#pragma once

#include <algorithm>
#include <cstdint>

#include "dpdk_nic/engine/drive_policy/limits.h"
#include "transport/time.h"

namespace uroce::nic {

// Which thread makes a pass. An application may never make another one.
enum class Driver : uint8_t { kApplication, kProgressThread };

// Decides what an engine does with its frames: whether those that were given to the port wait for
// further ones, so that one system call sends them all; whether answers wait for more frames to
// answer; whether a verb has to make a pass. Used under the engine's lock; has no clock.
//
// Flushing. Frames of verbs: while earlier requests are unanswered the program will post more, and
// frames wait for those; a lone message goes at once. A program whose passes twice receive nothing
// posts no more: its queue is full, or it waits for a result. Frames of passes: an application that
// received something is likely to reply, so the answers wait for the reply, or for its next pass
// that receives nothing. Frames only wait while the progress thread watches an application that
// makes passes all the time: if it makes none, that thread, or exit(), sends them. A process that
// is killed before leaves them unsent.
//
// Holding. One ACK covers all messages before it. A thread that receives small messages faster than
// the peer sends them would answer each one alone, which costs both sides more than the message:
// the ring's lines move back and forth, and each ACK stops the sender. So while frames arrive close
// together their answers wait for more. A frame that arrives alone is answered at once.
class FramePolicy {
 public:
  using Time = transport::Time;
  enum class Flush : uint8_t { kNothing, kSoon, kNow };

  // A frame was given to the port.
  void FrameGiven() { ++unflushed_; }
  // Frames are about to be received.
  void ReceiveBegins() { unread_ = 0; }

  // Whether the verb that runs has sent no frame yet.
  bool is_first_of_verb() const { return sent_at_once_ == Time{0}; }
  // A verb sent a frame while it ran. `awaits_answers`: to requests of earlier verbs.
  void SentAtOnce(Time now, bool awaits_answers) {
    awaits_answers_ |= awaits_answers;
    sent_at_once_ = now;
  }
  // The time of the last such frame; 0: none.
  Time sent_at_once() const { return sent_at_once_; }

  // A verb ends that sent so many frames; 0: it had some, but the port is full. `is_watched`: the
  // progress thread stands by.
  Flush AfterVerb(Time now, uint32_t frames, bool is_watched) {
    const bool awaits_answers = awaits_answers_;
    awaits_answers_ = false;
    sent_at_once_ = {};
    unread_ += std::max(frames, uint32_t{1});
    if (frames == 0) return Flush::kNothing;
    const bool waits_for_others = awaits_answers && unflushed_ < drive::kMostUnflushed;
    Limit(waits_for_others ? flushed_at_ + drive::kLongestForOthers : now);
    had_empty_pass_ = false;
    return Decide(now, is_watched);
  }
  // Whether a verb has to make a pass when it ends: many frames were sent since some were received.
  bool IsPassDue() const { return unread_ >= drive::kMostUnread; }

  // Whether a pass that received so many frames holds its answers. Another pass has to follow.
  bool HoldsAnswers(Time now, Driver driver, int received) {
    if (driver == Driver::kApplication) return false;
    if (received != 0) {
      const bool is_close = now - received_at_ < drive::kCloseTogether;
      received_at_ = now;
      if (is_close && !holds_) {
        holds_ = true;
        holds_until_ = now + drive::kLongestHold;
      }
    }
    holds_ = holds_ && now < holds_until_;
    return holds_;
  }

  Flush AfterPass(Time now, Driver driver, bool has_received, bool has_sent, bool is_watched) {
    const bool of_application = driver == Driver::kApplication;
    const bool may_reply = of_application && has_received;
    if (has_sent) Limit(may_reply ? now + drive::kLongestForReply : now);
    if (answers_wait_ && !has_received) Limit(now);
    answers_wait_ |= has_sent && may_reply;
    const bool is_empty = of_application && !has_received;
    if (is_empty && had_empty_pass_ && unflushed_ != 0) Limit(now);
    had_empty_pass_ = is_empty;
    return Decide(now, is_watched);
  }

 private:
  void Limit(Time limit) { limit_ = std::min(limit_, limit); }
  Flush Decide(Time now, bool is_watched) {
    if (now < limit_ && is_watched) return Flush::kSoon;
    limit_ = transport::kNever;
    flushed_at_ = now;
    unflushed_ = 0;
    answers_wait_ = false;
    return Flush::kNow;
  }

  // Flushing.
  Time limit_ = transport::kNever;
  Time flushed_at_;
  uint32_t unflushed_ = 0;
  bool answers_wait_ = false;
  bool had_empty_pass_ = false;  // the application's last pass received nothing
  // Holding. The first frame counts as alone.
  bool holds_ = false;
  Time holds_until_;
  Time received_at_{-drive::kCloseTogether.ns};
  // The verb that runs.
  Time sent_at_once_;
  bool awaits_answers_ = false;
  uint32_t unread_ = 0;  // frames that verbs sent since frames were received
};

}  // namespace uroce::nic
