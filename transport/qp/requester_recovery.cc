#include <algorithm>
#include <utility>

#include "transport/qp/requester.h"
#include "transport/qp/send_operations.h"
#include "transport/wire/selective_ack.h"

// Losses on a network, where there is flow control. The scoreboard knows which packets have
// arrived: responses, which are placed in memory in any order, and requests, of which a peer that
// is uroce tells by selective ACKs. Each lost packet is sent again, once in a round trip, paced as
// all others, and sending goes on meanwhile. Of a READ only what is missing is asked for again.
//
// A peer that goes back by the book drops all behind a gap. Its NAK makes all of that lost.
namespace uroce::transport {

// nullptr where losses are repaired by going back: on a link, without congestion control, or if
// there is no memory.
Scoreboard* Requester::UseScoreboard() {
  if (flow_control_ == nullptr) return nullptr;
  if (scoreboard_ == nullptr) {
    scoreboard_ = Scoreboard::Make();
    if (scoreboard_ == nullptr) return nullptr;
    scoreboard_->Restart(oldest_unacked_psn_);
  }
  if (!scoreboard_->is_open()) {
    scoreboard_->Restart(oldest_unacked_psn_);
    executed_end_ = oldest_unacked_psn_;
  }
  return scoreboard_.get();
}

// Nothing is known any more of the packets from the oldest on. READs whose credit was freed, as all
// responses had arrived, wait for these again.
void Requester::ForgetArrivals() {
  if (is_selective()) {
    scoreboard_->Restart(oldest_unacked_psn_);
    (void)CountReadCredits();
  }
  owes_repair_ = false;
  repair_at_ = kNever;
  probed_.reset();
}

// The number of the request that a packet belongs to which was sent and is not acknowledged.
uint32_t Requester::FindRequest(Psn psn) const {
  uint32_t first = queue_.front();
  if (queue_[first].Contains(psn)) return first;
  uint32_t end = cursor_ != queue_.back() && queue_[cursor_].started ? cursor_ + 1 : cursor_;
  while (end - first > 1) {
    const uint32_t middle = first + (end - first) / 2;
    (queue_[middle].first_psn.IsAfter(psn) ? end : first) = middle;
  }
  return first;
}

// All packets before the PSN are acknowledged, and the bits tell which others the peer has.
DropReason Requester::OnSelectiveAck(Time now, const Packet& packet) {
  const auto kept = SelectiveAckView::Parse(packet.payload);
  if (!kept) return DropReason::kMalformedResponse;
  const bool is_complete = AcknowledgeUpTo(now, packet.psn);
  if (failed_) return DropReason::kNone;
  Scoreboard* const board = UseScoreboard();
  if (board == nullptr) {  // the first one for a gap is like a NAK
    if (std::exchange(reported_gap_, packet.psn) != packet.psn) OnSequenceNak(now);
    return DropReason::kNone;
  }
  peer_tells_arrivals_ = true;
  if (!is_complete) NoteExecuted(now, packet.psn);
  uint32_t arrived = 0;
  Psn missing = packet.psn;
  kept->ForEach([&](uint32_t distance) {
    const Psn psn = packet.psn + distance;
    if (psn.IsBefore(oldest_unacked_psn_) || !psn.IsBefore(next_psn_)) return;
    board->Overtake(now, missing, psn);
    missing = psn + 1;
    if (read_credits_used_ != 0) {
      const SendWqe& wqe = queue_[FindRequest(psn)];
      // The peer has the request, and will answer it when the gap is closed.
      if (HasOwnResponse(wqe.opcode)) {
        missing = wqe.PieceEnd(psn);
        return;
      }
    }
    arrived += board->OnArrived(now, psn, round_trip_.Shortest());
  });
  peer_room_end_ = packet.psn + kept->room;
  if (arrived == 0) return DropReason::kNone;
  TellFlowControl(now, oldest_unacked_psn_, board->newest_end(), arrived);
  if (IsResponseDue()) ArmAckTimer(now);
  return DropReason::kNone;
}

// A response arrived before an earlier one: its data goes to its place. One that does not fit its
// request fails that when it is the oldest.
DropReason Requester::OnEarlyResponse(Time now, const Packet& packet) {
  const Psn psn = packet.psn;
  Scoreboard* const board = psn.IsBefore(next_psn_) ? UseScoreboard() : nullptr;
  if (board == nullptr) return OnLostResponse(now, psn, psn);
  NoteExecuted(now, psn);
  if (psn.IsBefore(oldest_unacked_psn_) || board->HasArrived(psn)) {
    return DropReason::kStaleResponse;
  }
  SendWqe& wqe = queue_[FindRequest(psn)];
  if (!PlaceEarly(wqe, packet)) return DropReason::kMalformedResponse;
  if (executed_end_.IsBefore(psn + 1)) executed_end_ = psn + 1;
  if (!board->OnArrived(now, psn, round_trip_.Shortest())) return DropReason::kNone;
  if (wqe.opcode == SendOpcode::kRdmaRead) FreeCreditOfPiece(wqe, psn);
  TellFlowControl(now, oldest_unacked_psn_, board->newest_end(), 1);
  if (IsResponseDue()) ArmAckTimer(now);
  return DropReason::kNone;
}

// If all responses to the READ request have arrived that the one with this PSN belongs to, the
// next request may follow, although others before it wait for lost responses. Not to a peer that
// remembers only the last max_dest_rd_atomic requests for duplicates, as rxe does.
void Requester::FreeCreditOfPiece(const SendWqe& wqe, Psn psn) {
  const Psn end = wqe.PieceEnd(psn);
  for (Psn other = wqe.PieceBegin(psn); other != end; ++other) {
    if (!other.IsBefore(oldest_unacked_psn_) && !scoreboard_->HasArrived(other)) return;
  }
  const Psn last = end - 1;
  if (scoreboard_->IsSettled(last)) return;
  const AddressVector& address = qp_.attributes.address;
  if (!qp_.environment.peers.FindOut(address, PeerFeature::kRepeatsReads)) return;
  scoreboard_->Settle(last);
  ReleaseReadCredit(last);
}

// The peer has carried out all requests before `end`: those without a response of their own have
// arrived, and the missing responses of the others are overtaken.
void Requester::NoteExecuted(Time now, Psn end) {
  if (next_psn_.IsBefore(end)) end = next_psn_;
  uint32_t arrived = 0;
  const Duration shortest = round_trip_.Shortest();
  Psn psn = executed_end_.IsBefore(oldest_unacked_psn_) ? oldest_unacked_psn_ : executed_end_;
  while (psn.IsBefore(end)) {
    const SendWqe& wqe = queue_[FindRequest(psn)];
    const Psn wqe_end = wqe.end_psn().IsBefore(end) ? wqe.end_psn() : end;
    if (!wqe_end.IsAfter(psn)) break;
    for (; psn != wqe_end && !HasOwnResponse(wqe.opcode); ++psn) {
      arrived += scoreboard_->OnArrived(now, psn, shortest);
    }
    psn = wqe_end;
  }
  scoreboard_->Overtake(now, executed_end_, end);
  if (executed_end_.IsBefore(end)) executed_end_ = end;
  if (arrived != 0) TellFlowControl(now, oldest_unacked_psn_, scoreboard_->newest_end(), arrived);
}

// Moves `reached` behind the responses of the oldest request that have arrived; true if it is then
// at the end of the request.
bool Requester::TakeArrived(const SendWqe& wqe, Psn& reached) {
  while (reached != wqe.end_psn() && scoreboard_->HasArrived(reached)) {
    const bool ends_piece = reached + 1 == wqe.PieceEnd(reached);
    if (ends_piece && !scoreboard_->IsSettled(reached)) ReleaseReadCredit(reached);
    ++reached;
  }
  return reached == wqe.end_psn();
}

// Something has arrived, or the wait for overtaken packets may be over.
void Requester::FollowArrivals(Time now) {
  owes_repair_ = false;
  repair_at_ = kNever;
  if (failed_) return;
  if (is_selective() && executed_end_.IsAfter(oldest_unacked_psn_)) {
    (void)AcknowledgeUpTo(now, executed_end_);
    if (failed_) return;
  }
  if (!is_selective()) {
    probed_.reset();
    return;
  }
  if (executed_end_.IsBefore(oldest_unacked_psn_)) executed_end_ = oldest_unacked_psn_;
  const uint32_t lost = scoreboard_->FindLosses(now, round_trip_.Shortest());
  if (lost != 0) flow_control_->OnLoss(now, lost, PacketsInFlight());
  owes_repair_ = scoreboard_->lost() != 0;
  repair_at_ = scoreboard_->next_loss();
  UpdateWindow();
}

// The oldest packet goes once more, without waiting for its turn. If the last one that went alone
// has arrived, and nothing after it, all behind it are lost. False if losses are repaired by going
// back.
bool Requester::RepairOldest(Time now) {
  Scoreboard* const board = UseScoreboard();
  if (board == nullptr || oldest_unacked_psn_ == next_psn_) return false;
  const bool is_tail_lost = probed_ && probed_->IsBefore(oldest_unacked_psn_);
  probed_ = oldest_unacked_psn_;
  const Psn end = is_tail_lost ? next_psn_ : oldest_unacked_psn_ + 1;
  // The peer may have it, and only its ACK was lost.
  board->ForgetArrival(oldest_unacked_psn_);
  const uint32_t lost = board->MarkLost(oldest_unacked_psn_, end);
  round_trip_.Cancel();
  if (is_tail_lost) flow_control_->OnLoss(now, lost, PacketsInFlight());
  FollowArrivals(now);
  permit_begin_ = next_psn_;
  permit_end_ = next_psn_ + 1;
  paced_until_ = kNever;
  UpdateWindow();
  return true;
}

// A NAK for the oldest packet. If the peer has kept what lies behind it, selective ACKs tell.
bool Requester::RepairAfterNak(Time now, bool is_counted) {
  Scoreboard* const board = UseScoreboard();
  if (board == nullptr || oldest_unacked_psn_ == next_psn_) return false;
  // The NAK may have been sent before the packet came that was sent again.
  if (board->WasSentAgain(oldest_unacked_psn_, Time{now.ns - round_trip_.Shortest().ns}))
    return true;
  if (is_counted && !TakeRetry(VendorError::kPsnNakRetries)) return true;
  const Psn end = peer_tells_arrivals_ ? oldest_unacked_psn_ + 1 : next_psn_;
  board->ForgetArrival(oldest_unacked_psn_);
  const uint32_t lost = board->MarkLost(oldest_unacked_psn_, end);
  round_trip_.OnNak(now);
  flow_control_->OnLoss(now, lost, PacketsInFlight());
  FollowArrivals(now);
  ArmAckTimer(now);
  return true;
}

// How many PSNs the packet takes that repairs the lost one. Of a READ request that the peer has
// executed, only lost responses are asked for again; one that it may not have executed is the same
// once more, as the peer counts requests (IBA C9-148).
uint32_t Requester::RepairedPsns(const SendWqe& wqe, Psn psn) const {
  if (wqe.opcode != SendOpcode::kRdmaRead) return 1;
  const auto rest = static_cast<uint32_t>(wqe.PieceEnd(psn).DistanceFrom(psn));
  const bool is_executed = executed_end_.IsAfter(wqe.PieceBegin(psn));
  return is_executed ? scoreboard_->CountLostFrom(psn, rest) : rest;
}

// Sends the first lost packet again, or asks once more for the first responses that are lost. 0 if
// pacing holds it back, or if its request has failed.
size_t Requester::BuildRepair(Time now, const FrameRoom& out) {
  if (!MayRepairNow()) return 0;
  if (!permit_end_.IsAfter(next_psn_) && !TakePermit(now)) return 0;
  const Psn psn = scoreboard_->first_lost();
  const uint32_t number = FindRequest(psn);
  SendWqe& wqe = queue_[number];
  const uint32_t psns = RepairedPsns(wqe, psn);
  const uint32_t cursor = std::exchange(cursor_, number);
  const Psn next_psn = std::exchange(next_psn_, psn);
  const Built built = BuildRequest(now, wqe, psns, out);
  if (built.frame_bytes == 0) {  // nothing behind it is sent any more
    ForgetArrivals();
    return 0;
  }
  cursor_ = cursor;
  next_psn_ = next_psn;
  ++qp_.counters.retransmitted_packets;
  flow_control_->OnSentAgain(psn, psns);
  // After going back, packets that were sent before that wait behind next_psn_.
  scoreboard_->OnSentAgain(now, psn, psns, next_psn_, HasOwnResponse(wqe.opcode));
  permit_begin_ = permit_begin_ - psns;
  permit_end_ = permit_end_ - psns;
  owes_repair_ = scoreboard_->lost() != 0;
  UpdateWindow();
  StartTimers(now);
  return built.frame_bytes;
}

}  // namespace uroce::transport
