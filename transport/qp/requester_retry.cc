#include <algorithm>
#include <bit>
#include <utility>

#include "transport/peer_progress.h"
#include "transport/qp/path_migration.h"
#include "transport/qp/requester.h"
#include "transport/qp/timeouts.h"

namespace uroce::transport {
namespace {

// The time between unanswered probes doubles at most kMaxBackoffs times, up to kLongestSilence, or
// to this part of the ACK timeout if that is shorter: the last try of a connection is eight probes.
constexpr uint32_t kMaxBackoffs = 10;
constexpr Duration kLongestSilence = Milliseconds(50);
constexpr int64_t kProbesPerTimeout = 8;

// Whether all responses to packets that were sent at `sent` or before would have arrived by now. If
// not, the silence of the peer is no loss: its process stands still.
bool HasPeerAnswered(const QpContext& qp, Time sent, Time now) {
  const EndpointConfig& config = qp.environment.config;
  const Route route = qp.path.route();
  const bool is_looped_back = route == Route::kLoopback && config.copies_to_own_members;
  if (is_looped_back) return !qp.environment.OwesReply(route);
  return config.peer_progress == nullptr || config.peer_progress->HasAnswered(route, sent, now);
}

// Whether the process of the peer on another host is known to live and to stand still. It is asked
// about.
bool StandsPeerStill(const QpContext& qp) {
  if (qp.path.route() != Route::kWire) return false;
  const AddressVector& address = qp.attributes.address;
  const Qpn peer = qp.attributes.destination_qpn;
  qp.environment.peers.AskAboutProcess(address, peer);
  return qp.environment.peers.StandsStill(address.destination_gid, peer);
}

Duration LongestBackoff(uint8_t timeout) {
  const auto ack_timeout = AckTimeout(timeout);
  if (!ack_timeout) return kLongestSilence;
  return std::min(kLongestSilence, Duration{ack_timeout->ns / kProbesPerTimeout});
}

}  // namespace

void Requester::OnDeadline(Time now) {
  if (now >= paced_until_) paced_until_ = kNever;
  if (now >= repair_at_) FollowArrivals(now);
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
  if (IsResponseDue() && !waits_for_receiver_) deadline_ = kRestart;
}

// IBA C9-139: no response in time. That takes a retry, but the responses may only be late, so just
// the oldest packet is sent again, and the answer shows what else is missing. The timer was started
// when the oldest packet had been sent.
void Requester::OnAckTimeout(Time now, Time due) {
  const Duration timeout = AckTimeout(qp_.attributes.timeout).value_or(Duration{});
  const bool has_answered = HasPeerAnswered(qp_, {due.ns - timeout.ns}, now);
  if (!has_answered || (StandsPeerStill(qp_) && retries_left_ == 0)) return ArmAckTimer(now);
  ++qp_.counters.ack_timeouts;
  implied_by_.reset();
  if (!TakeRetry(VendorError::kAckTimeout)) return;
  if (!RepairOldest(now)) SendOldestAgain(now);
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
  if (waits_for_receiver_ || failed_ || !IsResponseDue()) return;
  const Duration silence = round_trip_.LongestSilence();
  const Duration longest = std::max(silence, LongestBackoff(qp_.attributes.timeout));
  const Duration backed_off = silence * (int64_t{1} << probes_in_vain_);
  probe_at_ = last_news_ + std::min(backed_off, longest);
  if (now < probe_at_) return;

  if (probes_in_vain_ < kMaxBackoffs) ++probes_in_vain_;
  probe_at_ = now + std::min(backed_off * 2, longest);
  if (!HasPeerAnswered(qp_, last_news_, now)) return;
  ++qp_.counters.probes;
  if (!RepairOldest(now)) SendOldestAgain(now);
  last_news_ = now;
}

// The responder saw a gap (IBA 9.9.2.4.1). Everything before it is acknowledged already.
void Requester::OnSequenceNak(Time now) {
  ++qp_.counters.psn_naks_received;
  // After an RNR NAK, rxe also sends a sequence NAK for the requests that followed, which are sent
  // again anyway. If it arrives after they were sent again, it reports no loss and takes no retry.
  const bool is_counted = !std::exchange(nak_may_follow_, false);
  if (waits_for_receiver_ || RepairAfterNak(now, is_counted)) return;
  if (now < went_back_at_ + round_trip_.Shortest()) return;
  // A peer that keeps early packets reports each gap when the one before is filled. What was sent
  // again fills it, too, unless it was lost once more.
  const bool was_sent_again =
      oldest_unacked_psn_.IsBefore(sent_twice_end_) && !sent_twice_end_.IsAfter(sent_psn_);
  if (was_sent_again && went_back_at_ + round_trip_.Latest() * 2 > now) return;
  if (is_counted && !TakeRetry(VendorError::kPsnNakRetries)) return;
  SendFlightAgain(now);
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
  SendFlightAgain(now);
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
//
// All requests before `executed_end` have been carried out.
DropReason Requester::OnLostResponse(Time now, Psn implied_by, Psn executed_end) {
  if (UseScoreboard() != nullptr) {
    NoteExecuted(now, executed_end);
    return DropReason::kNone;
  }
  const bool is_new_loss = !implied_by_ || implied_by.IsBefore(*implied_by_);
  if (is_new_loss && now < went_back_at_ + round_trip_.Latest()) {
    return DropReason::kOutOfOrderResponse;
  }
  implied_by_ = implied_by;
  if (is_new_loss && !waits_for_receiver_) {
    ++qp_.counters.implied_naks;
    SendFlightAgain(now);
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

// A packet is known to be lost, and a peer that keeps the order has dropped those behind it: all
// that are not acknowledged are sent again. On a network they are no burst, since the packet may
// have been lost because a queue was full: they are paced or, without congestion control, those
// that are acknowledged make room for others.
void Requester::SendFlightAgain(Time now) {
  NoteSentAgain();
  const bool is_network = qp_.path.route() == Route::kWire;
  resend_window_ = is_network && flow_control_ == nullptr ? kFirstResendWindow : kNoResend;
  round_trip_.OnNak(now);
  went_back_at_ = now;
  if (flow_control_ != nullptr) flow_control_->GoBack();
  GoBack();
}

// It is not known whether a packet is lost: the oldest is sent again, alone. The round trip is
// measured on.
void Requester::SendOldestAgain(Time now) {
  NoteSentAgain();
  resend_window_ = 1;
  went_back_at_ = now;
  GoBack();
  if (flow_control_ == nullptr) return;
  flow_control_->OnProbe();
  permit_end_ = next_psn_ + 1;  // it does not wait for its turn
  paced_until_ = kNever;
  UpdateWindow();
}

// A response came while packets are sent again: to one of these, or to an earlier packet that was
// slow and not lost. If it acknowledges more than was sent again, the peer has the original
// packets, and sending goes on behind them. Otherwise two more packets follow for each that was
// acknowledged: a slow peer is not flooded with packets that it has.
void Requester::OpenResendWindow(uint32_t acknowledged) {
  const bool has_more =
      oldest_unacked_psn_.IsAfter(next_psn_) && oldest_unacked_psn_.IsAfter(sent_again_psn_);
  if (has_more) return ContinueAfterFlight();
  // Pacing keeps the rest from being a burst.
  const bool may_follow = flow_control_ != nullptr && next_psn_ == oldest_unacked_psn_;
  const bool was_all_answered = next_psn_ == sent_psn_ && next_psn_ == oldest_unacked_psn_;
  const bool is_bounded = resend_window_ + acknowledged < NormalWindow();
  resend_window_ =
      may_follow || was_all_answered || !is_bounded ? kNoResend : resend_window_ + acknowledged;
  UpdateWindow();
}

uint32_t Requester::NormalWindow() const {
  return flow_control_ == nullptr ? kMaxPacketsInFlight : flow_control_->window();
}

// A connection by the wire begins, or has a new path.
void Requester::ChooseFlowControl() {
  const bool is_network = qp_.path.route() == Route::kWire;
  flow_control_ = is_network ? own_flow_control_.get() : nullptr;
  if (flow_control_ != nullptr) flow_control_->Restart();
  ForgetArrivals();
  permit_begin_ = permit_end_ = next_psn_;
  UpdateWindow();
}

void Requester::UpdateWindow() {
  window_ = std::min(resend_window_, NormalWindow());
  if (is_selective()) [[unlikely]] {
    // Packets that have arrived or are lost are not in flight.
    window_ =
        std::min(window_ + scoreboard_->arrived() + scoreboard_->lost(), Scoreboard::kPackets - 1);
    const int32_t room = peer_room_end_ ? peer_room_end_->DistanceFrom(oldest_unacked_psn_) : 0;
    if (room > 0) window_ = std::min(window_, static_cast<uint32_t>(room));
  } else {
    peer_room_end_.reset();
  }
  // Nothing is predicted while packets are sent again.
  limit_psn_ = oldest_unacked_psn_ + (is_resending() ? 0 : window_);
  if (flow_control_ == nullptr) return;
  if (permit_end_.IsBefore(limit_psn_)) limit_psn_ = permit_end_;
  const uint32_t interval = std::clamp(window_ / 4, 1u, kAckRequestInterval);
  ack_mask_ = static_cast<uint8_t>(std::bit_floor(interval) - 1);
}

// Packets are about to be sent again, perhaps once more.
void Requester::NoteSentAgain() {
  if (!is_resending()) {
    sent_again_psn_ = oldest_unacked_psn_ + 1;
  } else if (next_psn_.IsAfter(sent_again_psn_)) {
    sent_again_psn_ = next_psn_;
  }
}

// Undoes GoBack: the next PSN is the first one that was never sent.
void Requester::ContinueAfterFlight() {
  resend_window_ = kNoResend;
  next_psn_ = permit_begin_ = permit_end_ = sent_psn_;
  UpdateWindow();
  cursor_ = CountReadCredits();
}

// Takes all that was ever sent for outstanding. Returns the number of the request that sent_psn_
// belongs to.
uint32_t Requester::CountReadCredits() {
  read_credits_used_ = 0;
  uint32_t number = queue_.front();
  for (; number != queue_.back(); ++number) {
    const SendWqe& wqe = queue_[number];
    if (!wqe.started || wqe.failed) break;
    read_credits_used_ += ReadCreditsInFlight(wqe);
    if (wqe.Contains(sent_psn_)) break;
  }
  return number;
}

// How many of max_rd_atomic are occupied if all of `wqe` that was ever sent waits for responses.
uint32_t Requester::ReadCreditsInFlight(const SendWqe& wqe) const {
  if (!HasOwnResponse(wqe.opcode)) return 0;
  const auto index = [&wqe](Psn psn) { return std::min(wqe.IndexOf(psn), wqe.psn_count); };
  const uint32_t begin = wqe.Contains(oldest_unacked_psn_) ? index(oldest_unacked_psn_) : 0;
  return wqe.PiecesBetween(begin, index(sent_psn_));
}

// Makes the oldest packet that is not acknowledged the next one to be sent. Requests that will be
// sent again hold no read credit until then.
void Requester::GoBack() {
  ForgetArrivals();
  cursor_ = FindOldest();
  next_psn_ = permit_begin_ = permit_end_ = oldest_unacked_psn_;
  read_credits_used_ = 0;
  UpdateWindow();
}

// The number of the request that the oldest packet belongs to.
uint32_t Requester::FindOldest() const {
  uint32_t number = queue_.front();
  while (number != queue_.back()) {
    const SendWqe& wqe = queue_[number];
    if (!wqe.started || wqe.failed || wqe.Contains(oldest_unacked_psn_)) break;
    ++number;
  }
  return number;
}

uint32_t Requester::PacketsInFlight() const {
  int32_t packets = next_psn_.DistanceFrom(oldest_unacked_psn_);
  if (is_selective()) packets -= static_cast<int32_t>(scoreboard_->arrived());
  return static_cast<uint32_t>(std::max(0, packets));
}

void Requester::ArmAckTimer(Time now) {
  const auto timeout = AckTimeout(qp_.attributes.timeout);
  deadline_ = timeout ? now + *timeout : kNever;
}

}  // namespace uroce::transport
