#include "transport/qp/responder.h"

// A request beyond the expected PSN leaves a gap: a packet was lost, or others have overtaken it.
//
// The responder keeps what arrives behind the gap (ReorderBuffer). When the missing packet comes,
// all that follows it is executed, and one ACK covers it. A path that is known to reorder gets some
// time before the NAK (ReorderWindow). All this is invisible to a peer that goes back by the book:
// its duplicates are answered as ever. A peer on the network that is uroce, too, is told at once
// what has arrived (SelectiveAck), and finds out itself what is lost.
namespace uroce::transport {

// One NAK reports the gap (IBA 9.7.5.2).
DropReason Responder::OnSequenceGap(Time now, const Packet& packet) {
  const bool is_held = MayHold() && early_packets_.Hold(packet, now);
  if (!nak_sent_) {
    last_dropped_psn_ = expected_psn_;
    OpenGap(now, now);
  } else if (is_held && SendsSelectiveAcks()) {
    ReportGap();
  }
  if (is_held) {
    ++qp_.counters.early_packets;
    return DropReason::kNone;
  }
  NoteDropped(packet.psn);
  return DropReason::kSequenceGap;
}

// The same for a request that another process would execute, which is not kept.
DropReason Responder::OnSequenceGap(Psn psn) {
  if (!nak_sent_) {
    last_dropped_psn_ = expected_psn_;
    OpenGap({}, {});
    ReportGap();
  }
  NoteDropped(psn);
  return DropReason::kSequenceGap;
}

// After another NAK the peer sends all again. The first packet of a connection raises an event when
// it is executed, and is not kept.
bool Responder::MayHold() const {
  const bool is_established =
      qp_.communication_established || qp_.attributes.state != QpState::kReadyToReceive;
  return is_established && relayed_ == nullptr && (qp_.has_open_gap || !nak_sent_);
}

void Responder::NoteDropped(Psn psn) {
  if (psn.IsAfter(last_dropped_psn_)) last_dropped_psn_ = psn;
}

void Responder::OpenGap(Time since, Time now) {
  qp_.has_open_gap = is_first_gap_ = true;
  nak_sent_ = true;
  gap_since_ = since;
  // Packets that are dropped have to be sent again, however soon the missing one comes.
  const Duration wait = early_packets_.empty() ? Duration{} : reorder_window_.wait();
  nak_due_ = since + wait;
  if (now >= nak_due_ || SendsSelectiveAcks()) ReportGap();
}

// A NAK does not say what was dropped behind the gap, and a selective ACK with nothing kept would
// say less than it.
void Responder::ReportGap() {
  nak_due_ = kNever;
  const bool is_selective = !early_packets_.empty() && SendsSelectiveAcks();
  acknowledge_ = is_selective ? Acknowledge::kSelectiveAck : Acknowledge::kSequenceNak;
}

// Whether the peer is known to understand them.
bool Responder::SendsSelectiveAcks() {
  if (qp_.path.route() != Route::kWire) return false;
  const AddressVector& address = qp_.attributes.address;
  return qp_.environment.peers.FindOut(address, PeerFeature::kSelectiveAcks);
}

void Responder::CloseGap() {
  qp_.has_open_gap = false;
  nak_due_ = kNever;
}

void Responder::OnDeadline(Time now) {
  if (relayed_ != nullptr) relayed_->OnDeadline(now);
  if (now >= nak_due_) ReportGap();
}

// The missing packet was taken. `was_reported`: its NAK has been sent.
void Responder::FollowGap(Time now, Psn filled, bool was_reported) {
  reorder_window_.OnFilled(filled, now);
  CloseGap();
  ExecuteEarlyPackets();
  if (!early_packets_.empty()) {
    OpenGap(early_packets_.front_arrival(), now);
    is_first_gap_ = false;
  } else if (!failed_ && !nak_sent_ && !expected_psn_.IsAfter(last_dropped_psn_) &&
             (!was_reported || SendsSelectiveAcks())) {
    // The peer knows nothing of the packets that were dropped behind the gap.
    OpenGap(now, now);
    is_first_gap_ = false;
  } else if (acknowledge_ == Acknowledge::kNone && !nak_sent_ && SendsSelectiveAcks()) {
    acknowledge_ = Acknowledge::kAck;  // the peer waits for what it knows to be missing
  }
}

// Executes the packets that follow the expected PSN without a gap. If one of them is refused, the
// peer sends all behind it again.
void Responder::ExecuteEarlyPackets() {
  while (!failed_ && !nak_sent_ && !qp_.completion_lost) {
    early_packets_.DropBefore(expected_psn_);
    if (early_packets_.empty() || early_packets_.front_psn() != expected_psn_) return;
    Packet packet;
    early_packets_.ReadFront(packet);
    if (packet.opcode.HasXrceth()) ChooseQueue(packet.xrceth.srqn);
    (void)OnExpected(packet);
    early_packets_.PopFront();
  }
  early_packets_.Clear();
}

}  // namespace uroce::transport
