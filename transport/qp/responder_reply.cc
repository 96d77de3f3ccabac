#include <algorithm>
#include <array>
#include <utility>

#include "transport/qp/credits.h"
#include "transport/qp/responder.h"
#include "transport/wire/selective_ack.h"

namespace uroce::transport {

// The request with the expected PSN may not be executed.
void Responder::Refuse(const Packet& packet, const Verdict& verdict) {
  nak_sent_ = true;
  awaits_receive_ = verdict.action == Verdict::Action::kRnrNak && qp_.peer_is_linked;
  if (verdict.action == Verdict::Action::kRnrNak) {
    acknowledge_ = Acknowledge::kRnrNak;
    return;
  }
  // A refused SEND, or WRITE with immediate, completes the receive request that it would have taken
  // in error, as on NICs.
  const bool ends_receive = verdict.receive_status != CompletionStatus::kRemoteInvalidRequest &&
                            NeedsReceive(packet.opcode) && !receives_.empty();
  if (ends_receive) receives_.Take();
  const VendorError reason = UseUpReceive(verdict);
  // The application gets a completion, or an event if there is none (IBA C9-222.1.1).
  if (receives_.in_use()) {
    FailReceive(verdict.receive_status, reason);
  } else {
    failure_event_ = verdict.event;
  }
  FailWithNak(verdict.nak);
}

// An RNR NAK that is still to be sent comes first.
bool Responder::OnReceivePosted() {
  if (!awaits_receive_) return false;
  if (acknowledge_ == Acknowledge::kRnrNak) return true;
  awaits_receive_ = false;
  acknowledge_ = Acknowledge::kReady;
  return true;
}

void Responder::FailWithNak(NakCode nak) {
  failed_ = true;
  if (!qp_.is_reliable()) return;
  acknowledge_ = Acknowledge::kFatalNak;
  fatal_nak_ = nak;
}

// Reports the number of our receive requests, unless other queue pairs may take them (IBA 9.7.7.2).
Syndrome Responder::AckSyndrome() const {
  return Syndrome::Ack(receives_.is_shared() ? Syndrome::kNoCreditInformation
                                             : EncodeCredits(receives_.count()));
}

size_t Responder::BuildFrame(const FrameRoom& out) {
  // Responses go out in PSN order (IBA 9.5). An ACK covers all requests before the one it names, so
  // it follows the replies.
  while (!replies_.empty()) {
    Reply& reply = replies_.Front();
    const size_t frame_bytes =
        reply.is_atomic ? BuildAtomicResponse(reply, out) : BuildReadResponse(reply, out);
    if (frame_bytes != 0) return frame_bytes;
  }
  return acknowledge_ == Acknowledge::kNone ? 0 : BuildAcknowledge(out);
}

size_t Responder::BuildReadResponse(Reply& reply, const FrameRoom& out) {
  if (reply.is_relayed) return relayed_->BuildResponse(out);
  const auto index = static_cast<uint64_t>(reply.next_psn.DistanceFrom(reply.first_psn));
  const uint64_t offset = index * qp_.mtu_bytes();
  const size_t length = std::min<uint64_t>(reply.read.dma_length - offset, qp_.mtu_bytes());
  const bool first = index == 0;
  const bool last = reply.next_psn + 1 == reply.end_psn;

  PayloadPiece piece{};
  if (length != 0) {
    // Looked up again for each packet: the region may be gone by now.
    piece = {qp_.environment.memory.RemoteAddress(reply.pd, qp_.qpn, reply.read.rkey,
                                                  reply.read.virtual_address + offset, length,
                                                  AccessFlags::kRemoteRead),
             length};
    if (piece.data == nullptr) {
      FailRead(reply);
      return 0;
    }
  }
  const Position position = PositionOf(first, last);
  const size_t frame_bytes = EmitReadResponse(reply, position, piece, out);
  if (frame_bytes == 0) {
    ++qp_.counters.memory_gone;
    FailRead(reply);
    return 0;
  }
  ++reply.next_psn;
  if (last) replies_.PopFront();
  return frame_bytes;
}

size_t Responder::EmitReadResponse(const Reply& reply, Position position,
                                   const PayloadPiece& payload, const FrameRoom& out) const {
  PacketHeaders headers = {.opcode = kRcReadResponseMiddle, .psn = reply.next_psn};
  const FrameBuilder& builder = qp_.path.builder();
  if (position == Position::kMiddle) return builder.Emit(headers, payload, out);
  headers.opcode = position == Position::kFirst  ? kRcReadResponseFirst
                   : position == Position::kLast ? kRcReadResponseLast
                                                 : kRcReadResponseOnly;
  return builder.Emit(headers, Aeth{AckSyndrome(), reply.msn}, payload, out);
}

// The data for the next response packet of a READ cannot be read.
void Responder::FailRead(const Reply& reply) {
  if (reply.is_replay) {  // it was answered before, and its key may have been given up since
    replies_.PopFront();
    return;
  }
  // The NAK names the packet (IBA 9.7.5.1.3).
  expected_psn_ = reply.next_psn;
  replies_.Clear();
  failure_event_ = EventType::kQpAccessError;
  FailWithNak(NakCode::kRemoteAccessError);
}

size_t Responder::BuildAtomicResponse(Reply& reply, const FrameRoom& out) {
  TransportHeaders headers = qp_.Headers(Operation::kAtomicAcknowledge);
  headers.psn = reply.next_psn;
  headers.aeth = {AckSyndrome(), reply.msn};
  headers.atomic_original = reply.atomic_result;
  replies_.PopFront();
  return qp_.path.builder().Emit(headers, {}, out);
}

size_t Responder::BuildAcknowledge(const FrameRoom& out) {
  const Acknowledge kind = std::exchange(acknowledge_, Acknowledge::kNone);
  if (kind == Acknowledge::kSelectiveAck) return BuildSelectiveAck(out);
  PacketHeaders headers = {.opcode = kRcAcknowledge, .psn = ack_psn_};
  Aeth aeth = {AckSyndrome(), ack_msn_};
  if (kind != Acknowledge::kAck) [[unlikely]] {
    headers.psn = kind == Acknowledge::kReady ? expected_psn_ - 1 : expected_psn_;
    aeth.msn = msn_;
    if (kind != Acknowledge::kReady) aeth.syndrome = CountNak(kind);
    if (awaits_receive_ && !receives_.empty()) (void)OnReceivePosted();
  }
  return qp_.path.builder().Emit(headers, aeth, PayloadPiece(), out);
}

size_t Responder::BuildSelectiveAck(const FrameRoom& out) {
  TransportHeaders headers = qp_.Headers(Operation::kSelectiveAcknowledge);
  headers.opcode.service = Service::kUroce;
  headers.psn = expected_psn_;
  headers.aeth = {AckSyndrome(), msn_};
  std::array<uint8_t, SelectiveAck::kMaxBytes> bytes;
  SelectiveAck kept(bytes, early_packets_.RoomFrom(expected_psn_), qp_.mtu_bytes());
  early_packets_.ForEach(
      [&](Psn psn) { (void)kept.Add(static_cast<uint32_t>(psn.DistanceFrom(expected_psn_))); });
  const PayloadPiece payload = {bytes.data(), kept.length()};
  return qp_.path.builder().Emit(headers, {&payload, 1}, out);
}

// A NAK is sent. Returns its syndrome.
Syndrome Responder::CountNak(Acknowledge kind) {
  switch (kind) {
    case Acknowledge::kSequenceNak:
      ++qp_.counters.psn_naks_sent;
      if (is_first_gap_) reorder_window_.OnNak(expected_psn_, gap_since_);
      return Syndrome::Nak(NakCode::kPsnSequenceError);
    case Acknowledge::kRnrNak:
      ++qp_.counters.rnr_naks_sent;
      return Syndrome::RnrNak(qp_.attributes.min_rnr_timer);
    default:
      ++qp_.counters.error_naks_sent;
      return Syndrome::Nak(fatal_nak_);
  }
}

}  // namespace uroce::transport
