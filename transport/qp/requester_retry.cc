#include <algorithm>
#include <utility>

#include "transport/peer_progress.h"
#include "transport/qp/path_migration.h"
#include "transport/qp/requester.h"
#include "transport/qp/timeouts.h"

namespace uroce::transport {
namespace {

// The time between unanswered probes doubles at most kMaxBackoffs times, up to kLongestSilence.
constexpr uint32_t kMaxBackoffs = 10;
constexpr Duration kLongestSilence = Milliseconds(1'000);

// Whether all responses to packets that were sent at `sent` or before would have arrived by now. If
// not, the silence of the peer is no loss: its process stands still.
bool HasPeerAnswered(const QpContext& qp, Time sent, Time now) {
  const EndpointConfig& config = qp.environment.config;
  const Route route = qp.path.route();
  const bool is_looped_back = route == Route::kLoopback && config.copies_to_own_members;
  if (is_looped_back) return !qp.environment.OwesReply(route);
  return config.peer_progress == nullptr || config.peer_progress->HasAnswered(route, sent, now);
}

}  // namespace

void Requester::OnDeadline(Time now) {
  if (now >= paced_until_) paced_until_ = kNever;
  if (now < std::min(deadline_, probe_at_)) return;
  if (now < deadline_) return OnSilence(now);
  const Time due = std::exchange(deadline_, kNever);
  if (due == kRestart) return ArmAckTimer(now);
  if (waits_for_receiver_) {
    waits_for_receiver_ = false;
    return;
  }
  OnAckTimeout(now, due);
}

// A verb does not know the time, so the next OnDeadline starts the ACK timer.
void Requester::RestartTimer() {
  const bool waits_for_response = oldest_unacked_psn_.IsBefore(response_due_psn_);
  if (waits_for_response && !waits_for_receiver_) deadline_ = kRestart;
}

// IBA C9-139: no response in time. Everything not acknowledged is sent again. The timer was started
// when the oldest packet had been sent.
void Requester::OnAckTimeout(Time now, Time due) {
  const Duration timeout = AckTimeout(qp_.attributes.timeout).value_or(Duration{});
  if (!HasPeerAnswered(qp_, {due.ns - timeout.ns}, now)) return ArmAckTimer(now);
  ++qp_.counters.ack_timeouts;
  implied_by_.reset();
  if (!TakeRetry(VendorError::kAckTimeout)) return;
  SendFlightAgain();
  // The timeout counts from now even if the wire takes no frame at the moment.
  ArmAckTimer(now);
}

void Requester::OnPeerGone() {
  if (failed_ || IsDrained()) return;
  ++qp_.environment.lost_peers;
  FailFront(CompletionStatus::kRetryExceeded, VendorError::kPeerGone);
}

// A response is outstanding and the peer has been silent for longer than a round trip: the end of a
// flight, a retransmission, or the response to one of them may be lost, which nothing else would
// show before the ACK timeout. The oldest packet goes once more and asks for a response: an ACK for
// it or, if the responder has it already, for all that has arrived. The packets that are not
// acknowledged then follow. No retry is taken and the ACK timer runs on: a connection to a dead
// peer fails when it would without probes. The round trip is still measured: a late answer, whether
// a packet was lost or the peer is slow, makes the next probe later.
void Requester::OnSilence(Time now) {
  probe_at_ = kNever;
  if (waits_for_receiver_ || failed_ || !oldest_unacked_psn_.IsBefore(response_due_psn_)) return;
  const Duration backed_off = round_trip_.LongestSilence() * (int64_t{1} << probes_in_vain_);
  probe_at_ = last_news_ + std::min(backed_off, kLongestSilence);
  if (now < probe_at_) return;

  if (probes_in_vain_ < kMaxBackoffs) ++probes_in_vain_;
  probe_at_ = now + std::min(backed_off * 2, kLongestSilence);
  if (!HasPeerAnswered(qp_, last_news_, now)) return;
  ++qp_.counters.probes;
  GoBackTo(oldest_unacked_psn_);
  resend_window_ = 1;
  last_news_ = now;
}

// The responder saw a gap (IBA 9.9.2.4.1). Everything before it is acknowledged already.
void Requester::OnSequenceNak(Time now) {
  ++qp_.counters.psn_naks_received;
  // After an RNR NAK, rxe also sends a sequence NAK for the requests that followed, which are sent
  // again anyway. If it arrives after they were sent again, it reports no loss and takes no retry.
  const bool is_counted = !std::exchange(nak_may_follow_, false);
  if (waits_for_receiver_) return;
  if (is_counted && !TakeRetry(VendorError::kPsnNakRetries)) return;
  SendFlightAgain();
  ArmAckTimer(now);
}

// The responder had no receive request (IBA 9.7.5.2.8). Nothing is sent until the time that it
// asked for is over.
void Requester::OnRnrNak(Time now, uint8_t timer_code) {
  QueuePairCounters& counters = qp_.counters;
  ++counters.rnr_naks_received;
  nak_may_follow_ = sent_psn_.IsAfter(oldest_unacked_psn_ + 1);
  if (waits_for_receiver_) return;  // the same RNR NAK again
  if (qp_.attributes.rnr_retry != kRnrRetryForEver) {
    if (rnr_retries_left_ == 0) {
      ++counters.rnr_retries_exceeded;
      return FailFront(CompletionStatus::kRnrRetryExceeded, VendorError::kRnrRetries);
    }
    --rnr_retries_left_;
  }
  SendFlightAgain();
  probe_at_ = kNever;
  waits_for_receiver_ = true;
  deadline_ = now + RnrDelay(timer_code);
}

// The peer has the receive request that it lacked, and says so by an ACK of nothing new, as only
// a peer on a link does. The time that it asked for has not passed: no retry was taken.
void Requester::OnReceiverReady() {
  waits_for_receiver_ = false;
  deadline_ = kNever;
  const uint8_t all = qp_.attributes.rnr_retry;
  if (all != kRnrRetryForEver && rnr_retries_left_ < all) ++rnr_retries_left_;
}

// A response arrived that implies the loss of an earlier one that no ACK can replace: an implied
// NAK (IBA 9.7.5.1.2). The responses behind it imply the same loss and are ignored. One with a PSN
// before the last one answers a retransmission: the loss is a new one. A probe changes nothing of
// this: responses to what was sent before it may still be under way.
DropReason Requester::OnLostResponse(Time now, Psn implied_by) {
  const bool is_new_loss = !implied_by_ || implied_by.IsBefore(*implied_by_);
  implied_by_ = implied_by;
  if (is_new_loss && !waits_for_receiver_) {
    ++qp_.counters.implied_naks;
    SendFlightAgain();
    ArmAckTimer(now);
  }
  return DropReason::kOutOfOrderResponse;
}

// Takes one of retry_cnt; false if none was left and the oldest request failed. Progress gives all
// of them back (IBA 9.9.2.4.1), and so does a migration to the alternate path (IBA 17.2.8).
bool Requester::TakeRetry(VendorError reason) {
  if (retries_left_ == 0 && CanMigrate(qp_)) {
    Migrate(qp_);
    RestoreRetries();
    return true;
  }
  if (retries_left_ == 0) {
    ++qp_.counters.retries_exceeded;
    FailFront(CompletionStatus::kRetryExceeded, reason);
    return false;
  }
  --retries_left_;
  return true;
}

// A packet is known to be lost: all packets that are not acknowledged are sent again.
void Requester::SendFlightAgain() {
  resend_window_ = kMaxPacketsInFlight;
  round_trip_.Cancel();
  GoBackTo(oldest_unacked_psn_);
}

// A response came after a probe: to the probe, or to an earlier packet that was slow and not lost.
// If it acknowledges more than was sent again, the peer has the original packets, and sending goes
// on behind them. If it acknowledges just what was sent again, twice as much of the rest follows: a
// slow peer is not flooded with packets that it has.
void Requester::OpenResendWindow() {
  if (next_psn_.IsBefore(oldest_unacked_psn_)) {
    ContinueAfterFlight();
  } else if (next_psn_ == oldest_unacked_psn_) {
    resend_window_ = next_psn_ == sent_psn_ ? kMaxPacketsInFlight
                                            : std::min(resend_window_ * 2, kMaxPacketsInFlight);
  }
}

// Undoes GoBackTo: the next PSN is the first one that was never sent.
void Requester::ContinueAfterFlight() {
  resend_window_ = kMaxPacketsInFlight;
  next_psn_ = sent_psn_;
  for (cursor_ = queue_.front(); cursor_ != queue_.back(); ++cursor_) {
    SendWqe& wqe = queue_[cursor_];
    if (!wqe.started || wqe.failed) break;
    if (HasOwnResponse(wqe.opcode) && wqe.first_psn.IsBefore(sent_psn_)) HoldReadCredit(wqe);
    if (wqe.Contains(sent_psn_)) break;
  }
}

// Makes `psn` the next PSN to be sent. It is not before oldest_unacked_psn_ and not after
// sent_psn_.
void Requester::GoBackTo(Psn psn) {
  uint32_t number = queue_.front();
  while (number != queue_.back()) {
    const SendWqe& wqe = queue_[number];
    if (!wqe.started || wqe.failed || wqe.Contains(psn)) break;
    ++number;
  }
  cursor_ = number;
  next_psn_ = psn;
  // Requests that will be sent again hold no read credit until then.
  for (; number != queue_.back() && queue_[number].started; ++number) {
    ReleaseReadCredit(queue_[number]);
  }
}

void Requester::ArmAckTimer(Time now) {
  const auto timeout = AckTimeout(qp_.attributes.timeout);
  deadline_ = timeout ? now + *timeout : kNever;
}

}  // namespace uroce::transport
