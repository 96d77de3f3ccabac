#include <algorithm>
#include <array>
#include <cstring>

#include "transport/completion_queue.h"
#include "transport/guarded_access.h"
#include "transport/limits.h"
#include "transport/qp/credits.h"
#include "transport/qp/requester.h"
#include "transport/qp/send_operations.h"

namespace uroce::transport {
// Whether the response is to something that was sent and not answered (IBA 9.7.6.1: ghost and
// duplicate responses).
inline bool Requester::IsAwaited(Psn psn) const {
  return !psn.IsBefore(oldest_unacked_psn_) && psn.IsBefore(sent_psn_);
}

// Writes response data to the memory of a request.
inline SgeCursor::Result Requester::Place(SendWqe& wqe, uint64_t offset,
                                          std::span<const uint8_t> bytes) {
  if (wqe.data == SendWqe::Data::kOnePiece) [[likely]] {
    uint8_t* const target = qp_.environment.memory.LocalAddress(
        qp_.init.pd, wqe.lkey, wqe.address + offset, bytes.size(), AccessFlags::kLocalWrite);
    if (target != nullptr && GuardedCopy(target, bytes.data(), bytes.size())) {
      return SgeCursor::Result::kOk;
    }
  }
  return wqe.UseData([&](SgeCursor& cursor) {
    return cursor.Scatter(qp_.environment.memory, qp_.init.pd, offset, bytes);
  });
}

// The same for the oldest request, which fails if that is not possible: false.
inline bool Requester::PlaceResponse(SendWqe& wqe, uint64_t offset,
                                     std::span<const uint8_t> bytes) {
  const SgeCursor::Result result = Place(wqe, offset, bytes);
  if (result == SgeCursor::Result::kOk) [[likely]]
    return true;
  const bool gone = result == SgeCursor::Result::kMemoryGone;
  if (gone) ++qp_.counters.memory_gone;
  FailFront(CompletionStatus::kLocalProtectionError,
            gone ? VendorError::kMemoryGone : VendorError::kLocalKeyInvalid);
  return false;
}

// Whether a packet of so many bytes is the one of the response to `wqe` that has this PSN. A
// response ends where the request that asked for it ends, and there only.
inline bool Requester::IsNextResponse(const SendWqe& wqe, Psn psn, size_t bytes, bool ends) const {
  const uint64_t offset = OffsetOf(wqe, psn);
  const bool last = psn + 1 == wqe.end_psn();
  const uint64_t message_bytes = ReturnsData(wqe.opcode) ? wqe.length : 0;
  const uint64_t index = offset / qp_.mtu_bytes();
  const bool ends_request = last || (index + 1) % wqe.read_piece() == 0;
  // The responses to a repeated request may end anywhere.
  const bool is_right_end = ends == ends_request || is_selective();
  return bytes == (last ? message_bytes - offset : qp_.mtu_bytes()) && is_right_end;
}

// Places a response to a request that is not the oldest. False if that is not possible.
bool Requester::PlaceEarly(SendWqe& wqe, const Packet& packet) {
  if (!wqe.Contains(packet.psn) || !HasOwnResponse(wqe.opcode)) return false;
  const bool is_atomic = packet.opcode.operation == Operation::kAtomicAcknowledge;
  if (is_atomic != IsAtomic(wqe.opcode)) return false;
  if (is_atomic) {
    std::array<uint8_t, sizeof packet.atomic_original> bytes;
    std::memcpy(bytes.data(), &packet.atomic_original, bytes.size());
    return Place(wqe, 0, bytes) == SgeCursor::Result::kOk;
  }
  if (!IsNextResponse(wqe, packet.psn, packet.payload.size(), packet.opcode.EndsMessage())) {
    return false;
  }
  return !ReturnsData(wqe.opcode) ||
         Place(wqe, OffsetOf(wqe, packet.psn), packet.payload) == SgeCursor::Result::kOk;
}

// The packet of the response to the oldest request that has this PSN has arrived.
inline void Requester::TakeResponse(Time now, SendWqe& wqe, Psn psn) {
  const bool last = psn + 1 == wqe.end_psn();
  const auto index = static_cast<uint32_t>(psn.DistanceFrom(wqe.first_psn)) & Psn::kMask;
  if (last || (index + 1) % wqe.read_piece() == 0) ReleaseReadCredit(psn);
  Progress(now, psn + 1);
  if (last) RetireFront();
}

// The response to a READ, or the empty one to a FLUSH or an ATOMIC WRITE.
inline DropReason Requester::OnReadResponse(Time now, const Packet& packet) {
  // The response acknowledges the requests before the one it belongs to.
  const bool is_oldest = packet.psn == oldest_unacked_psn_;
  if (!is_oldest && !AcknowledgeUpTo(now, packet.psn)) return OnEarlyResponse(now, packet);
  if (failed_) return DropReason::kNone;
  SendWqe& wqe = queue_[queue_.front()];
  if (IsAtomic(wqe.opcode) || !HasOwnResponse(wqe.opcode)) return OnWrongResponse();

  if (!IsNextResponse(wqe, packet.psn, packet.payload.size(), packet.opcode.EndsMessage())) {
    return OnWrongResponse();
  }
  const uint64_t offset = OffsetOf(wqe, packet.psn);
  if (ReturnsData(wqe.opcode) && !PlaceResponse(wqe, offset, packet.payload)) {
    return DropReason::kNone;
  }
  TakeResponse(now, wqe, packet.psn);
  return DropReason::kNone;
}

DropReason Requester::OnResponse(Time now, const Packet& packet) {
  if (!IsAwaited(packet.psn)) {
    // A repeated last ACK may carry new credits (IBA 9.7.7.2, an unsolicited ACK).
    const bool last = packet.opcode.operation == Operation::kAcknowledge &&
                      packet.aeth.syndrome.kind() == Syndrome::Kind::kAck &&
                      packet.psn + 1 == oldest_unacked_psn_;
    const bool has_news = last && UpdateCredits(packet.aeth);
    const bool ends_wait = last && waits_for_receiver_ && qp_.peer_is_linked;
    if (ends_wait) OnReceiverReady();
    return has_news || ends_wait ? DropReason::kNone : DropReason::kStaleResponse;
  }
  const Psn oldest_unacked = oldest_unacked_psn_;
  DropReason result;
  switch (packet.opcode.operation) {
    case Operation::kReadResponse:
      result = OnReadResponse(now, packet);
      break;
    case Operation::kAtomicAcknowledge:
      result = OnAtomicResponse(now, packet);
      break;
    case Operation::kSelectiveAcknowledge:
      result = OnSelectiveAck(now, packet);
      break;
    default:
      if (packet.aeth.syndrome.kind() != Syndrome::Kind::kAck) {
        result = OnNak(now, packet);
      } else {
        const Psn end = packet.psn + 1;
        result =
            AcknowledgeUpTo(now, end) ? DropReason::kNone : OnLostResponse(now, packet.psn, end);
      }
  }
  if (scoreboard_ != nullptr) [[unlikely]]
    FollowArrivals(now);
  if (packet.opcode.HasAeth()) UpdateCredits(packet.aeth);
  const int32_t acknowledged = oldest_unacked_psn_.DistanceFrom(oldest_unacked);
  if (is_resending() && !failed_ && acknowledged != 0)
    OpenResendWindow(static_cast<uint32_t>(acknowledged));
  // Packets that were to be sent again and are now acknowledged are skipped.
  if (next_psn_.IsBefore(oldest_unacked_psn_)) GoBack();
  return result;
}

// The peer has carried out `aeth.msn` requests and has receive requests for as many further
// messages as the syndrome says (IBA 9.7.7.2). Requests in flight that take none do not count. The
// limit is never lowered. Returns whether it was raised.
bool Requester::UpdateCredits(const Aeth& aeth) {
  if (!ssn_limit_ || aeth.syndrome.kind() != Syndrome::Kind::kAck) return false;
  const auto credits = DecodeCredits(aeth.syndrome.value());
  if (!credits) {  // the peer will never report credits
    ssn_limit_.reset();
    return true;
  }
  // The peer may have carried out some of free_in_flight_ already, without our knowing which.
  const uint32_t unknown = IsSsnAfter(aeth.msn, retired_ssn_) ? aeth.msn - retired_ssn_ : 0;
  const uint32_t free = free_in_flight_ - std::min(free_in_flight_, unknown & Psn::kMask);
  const uint32_t limit = aeth.msn + *credits + free;
  if (!IsSsnAfter(limit, *ssn_limit_)) return false;
  ssn_limit_ = limit;
  return true;
}

DropReason Requester::OnNak(Time now, const Packet& packet) {
  const Syndrome syndrome = packet.aeth.syndrome;
  if (syndrome.kind() == Syndrome::Kind::kReserved) return DropReason::kMalformedResponse;

  // A NAK acknowledges everything before its PSN (IBA 9.7.5.2).
  if (!AcknowledgeUpTo(now, packet.psn)) return OnLostResponse(now, packet.psn, packet.psn);
  if (failed_) return DropReason::kNone;
  if (syndrome.kind() == Syndrome::Kind::kRnrNak) {
    OnRnrNak(now, syndrome.value());
    return DropReason::kNone;
  }
  switch (syndrome.nak_code()) {  // IBA 9.7.5.2.2
    case NakCode::kPsnSequenceError:
      OnSequenceNak(now);
      return DropReason::kNone;
    case NakCode::kInvalidRequest:
      FailFront(CompletionStatus::kRemoteInvalidRequest, VendorError::kNakInvalidRequest);
      return DropReason::kNone;
    case NakCode::kRemoteAccessError:
      FailFront(CompletionStatus::kRemoteAccessError, VendorError::kNakRemoteAccess);
      return DropReason::kNone;
    case NakCode::kRemoteOperationalError:
      FailFront(CompletionStatus::kRemoteOperationError, VendorError::kNakRemoteOperation);
      return DropReason::kNone;
    default:
      return DropReason::kMalformedResponse;
  }
}

DropReason Requester::OnAtomicResponse(Time now, const Packet& packet) {
  if (!AcknowledgeUpTo(now, packet.psn)) return OnEarlyResponse(now, packet);
  if (failed_) return DropReason::kNone;
  SendWqe& wqe = queue_[queue_.front()];
  if (!IsAtomic(wqe.opcode)) return OnWrongResponse();

  std::array<uint8_t, sizeof packet.atomic_original> bytes;
  std::memcpy(bytes.data(), &packet.atomic_original, bytes.size());
  if (!PlaceResponse(wqe, 0, bytes)) return DropReason::kNone;
  ReleaseReadCredit(packet.psn);
  Progress(now, packet.psn + 1);
  RetireFront();
  return DropReason::kNone;
}

// The response does not fit the oldest request: asking again would not help (IBA 9.9.2.4.2, bad
// response).
DropReason Requester::OnWrongResponse() {
  FailFront(CompletionStatus::kBadResponse, VendorError::kWrongResponse);
  return DropReason::kMalformedResponse;
}

inline void Requester::CompleteDone(const SendWqe& wqe) {
  if (wqe.signaled || qp_.init.signal_all) {
    Complete(wqe, CompletionStatus::kSuccess, VendorError::kNone);
  }
}

[[gnu::always_inline]] inline void Requester::PopDone() {
  const SendWqe& wqe = queue_[queue_.front()];
  CompleteDone(wqe);
  const uint32_t messages = wqe.message_count();
  retired_ssn_ += messages;
  if (!TakesReceive(wqe.opcode)) free_in_flight_ -= messages;
  if (cursor_ == queue_.front()) ++cursor_;
  queue_.PopFront();
}

// The oldest request is done, and so are the local operations behind it.
void Requester::RetireFront() {
  PopDone();
  RetireLocal();
}

// Completes the oldest requests as long as they are plain, of one packet, as nearly all are, and
// before `limit`, which is not beyond sent_psn_. Returns the PSN behind them. If that is beyond
// next_psn_, the cursor is at a request that has left the queue until OnResponse moves it.
inline Psn Requester::RetirePlain(Psn limit) {
  Psn reached = oldest_unacked_psn_;
  const uint32_t first = queue_.front();
  uint32_t number = first;
  uint32_t sends = 0;
  for (; reached != limit; ++number, ++reached) {
    const SendWqe& wqe = queue_[number];
    if (!wqe.is_one_piece || wqe.psn_count != 1) break;
    CompleteDone(wqe);
    sends += wqe.opcode == SendOpcode::kSend;
  }
  const uint32_t retired = number - first;
  retired_ssn_ += retired;
  free_in_flight_ -= retired - sends;
  queue_.PopUpTo(number);
  return reached;
}

// Completes the requests whose PSNs all lie before `limit`, which is not beyond sent_psn_. False if
// one of them has a response of its own: that response should have come first, so it was lost
// (IBA 9.7.5.1.2).
bool Requester::AcknowledgeUpTo(Time now, Psn limit) {
  if (failed_) return true;
  bool is_complete = true;
  Psn reached = RetirePlain(limit);
  if (!queue_.empty() && queue_[queue_.front()].IsLocalOrFailed()) [[unlikely]]
    RetireLocal();
  while (!failed_ && reached.IsBefore(limit)) {
    const SendWqe& wqe = queue_[queue_.front()];
    const bool has_own_response = HasOwnResponse(wqe.opcode);
    is_complete = !has_own_response || (is_selective() && TakeArrived(wqe, reached));
    if (!is_complete) break;
    if (wqe.Contains(limit) && !has_own_response) {
      reached = limit;
    } else {
      reached = wqe.end_psn();
      PopDone();
      if (!queue_.empty() && queue_[queue_.front()].IsLocalOrFailed()) [[unlikely]]
        RetireLocal();
    }
  }
  if (reached != oldest_unacked_psn_) Progress(now, reached);
  return is_complete;
}

// See Progress.
void Requester::TellFlowControl(Time now, Psn oldest_unacked) {
  auto packets = static_cast<uint32_t>(oldest_unacked.DistanceFrom(oldest_unacked_psn_));
  Psn end = oldest_unacked;
  if (is_selective()) [[unlikely]] {
    packets = scoreboard_->OnAcknowledged(now, oldest_unacked, round_trip_.Shortest());
    if (scoreboard_->newest_end().IsAfter(end)) end = scoreboard_->newest_end();
  }
  TellFlowControl(now, oldest_unacked, end, packets);
}

// So many packets more have arrived, the newest before `end`.
void Requester::TellFlowControl(Time now, Psn oldest_unacked, Psn end, uint32_t packets) {
  int32_t in_flight = next_psn_.DistanceFrom(oldest_unacked);
  if (is_selective()) {
    in_flight -= static_cast<int32_t>(scoreboard_->arrived() + scoreboard_->lost());
  }
  const auto round_trip = flow_control_->OnAcknowledged(
      now, end, packets, static_cast<uint32_t>(std::max(0, in_flight)));
  if (round_trip) round_trip_.OnMeasured(*round_trip);
  if (paced_until_ == kNever) return;
  paced_until_ = std::min(paced_until_, std::max(flow_control_->next_send(), pacer_.NextSend()));
}

// All requests before this PSN are known to have been carried out.
void Requester::Progress(Time now, Psn oldest_unacked) {
  round_trip_.OnAcknowledged(oldest_unacked, now);
  if (flow_control_ != nullptr) TellFlowControl(now, oldest_unacked);
  oldest_unacked_psn_ = oldest_unacked;
  limit_psn_ = oldest_unacked + window_;
  if (flow_control_ != nullptr || is_resending()) UpdateWindow();
  RestoreRetries();
  waits_for_receiver_ = false;
  nak_may_follow_ = false;
  implied_by_.reset();
  probes_in_vain_ = 0;
  deadline_ = kNever;
  if (IsResponseDue()) {
    StartTimers(now);
  } else {
    probe_at_ = kNever;
  }
}

void Requester::Complete(const SendWqe& wqe, CompletionStatus status, VendorError reason) {
  Completion completion;
  completion.wr_id = wqe.wr_id;
  completion.status = status;
  completion.opcode = RowOf(wqe.opcode).completion;
  completion.vendor_error = reason;
  completion.byte_length = wqe.length;
  completion.qpn = qp_.qpn;
  if (!qp_.init.send_cq->Push(completion, /*solicited=*/false)) qp_.completion_lost = true;
}

// Local operations complete when everything before them has; so does a request that failed before
// it was sent.
void Requester::RetireLocal() {
  while (!queue_.empty() && queue_[queue_.front()].IsLocalOrFailed()) {
    const SendWqe& wqe = queue_[queue_.front()];
    if (wqe.failed) return FailFront(wqe.details->failure, wqe.details->failure_reason);
    if (!wqe.started) return;
    PopDone();
  }
}

// The oldest request completes in error, signaled or not (IBA 10.7.3.1), and stops the queue
// (IBA 9.9.2.4.2).
void Requester::FailFront(CompletionStatus status, VendorError reason) {
  if (failed_) return;
  failed_ = true;
  Complete(queue_[queue_.front()], status, reason);
  queue_.PopFront();
}

void Requester::Flush(VendorError why) {
  for (; !queue_.empty(); queue_.PopFront()) {
    Complete(queue_[queue_.front()], CompletionStatus::kFlushed, why);
  }
  cursor_ = queue_.front();
  deadline_ = probe_at_ = paced_until_ = kNever;
  ForgetArrivals();
  waits_for_receiver_ = false;
}

// The last response to the request with this PSN has arrived. A request that is to be sent again
// holds no credit.
void Requester::ReleaseReadCredit(Psn psn) {
  if (psn.IsBefore(next_psn_)) --read_credits_used_;
}

}  // namespace uroce::transport
