#include "transport/completion_queue.h"
#include "transport/guarded_access.h"
#include "transport/limits.h"
#include "transport/qp/responder.h"

namespace uroce::transport {

// The short way in, of nearly all requests: whether a message of one packet has the expected PSN
// and a valid length (IBA C9-92), and no NAK is owed or was sent. Of the checks of OnRequest and
// Validate only those of the operation itself are left then.
bool Responder::IsPlainNow(const PlainPacket& packet) const {
  const size_t bytes = packet.payload.size();
  return packet.psn == expected_psn_ && message_ == Message::kNone && !nak_sent_ && bytes != 0 &&
         bytes <= qp_.mtu_bytes();
}

bool Responder::OnPlainWrite(const PlainPacket& packet) {
  const Reth& reth = packet.reth;
  const bool is_plain = IsPlainNow(packet) && reth.dma_length == packet.payload.size() &&
                        qp_.attributes.access.Allows(AccessFlags::kRemoteWrite);
  if (!is_plain) return false;
  uint8_t* const target =
      qp_.environment.memory.RemoteAddress(remote_pd_, qp_.qpn, reth.rkey, reth.virtual_address,
                                           reth.dma_length, AccessFlags::kRemoteWrite);
  if (target == nullptr || !PlaceInOrder(target, packet.payload)) return false;
  FinishPlain(packet);
  return true;
}

bool Responder::OnPlainSend(const PlainPacket& packet) {
  if (!IsPlainNow(packet) || receives_.empty()) return false;
  const std::span<const ScatterGatherEntry> sges = receives_.Next().sges;
  if (sges.size() != 1 || sges.front().length < packet.payload.size()) return false;
  uint8_t* const target =
      qp_.environment.memory.LocalAddress(receives_.pd(), sges.front().lkey, sges.front().address,
                                          packet.payload.size(), AccessFlags::kLocalWrite);
  const bool is_placed =
      target != nullptr && GuardedCopy(target, packet.payload.data(), packet.payload.size());
  if (!is_placed) return false;
  receives_.Take();
  CompletePlainSend(packet.payload.size(), packet.solicited);
  FinishPlain(packet);
  return true;
}

void Responder::CompletePlainSend(uint64_t bytes, bool solicited) {
  Completion completion = NewCompletion();
  completion.byte_length = static_cast<uint32_t>(bytes);
  Push(completion, solicited);
}

void Responder::FinishPlain(const PlainPacket& packet) {
  ++expected_psn_;
  CountMessage();
  NoteExecuted(packet.psn, /*ends_message=*/true, packet.ack_request);
}

// The same for a packet of a longer message, `message`.
bool Responder::IsPlainPartNow(const PlainPacket& packet, Position position,
                               Message message) const {
  const size_t bytes = packet.payload.size();
  const bool has_right_length = position == Position::kLast ? bytes != 0 && bytes <= qp_.mtu_bytes()
                                                            : bytes == qp_.mtu_bytes();
  return packet.psn == expected_psn_ && !nak_sent_ && has_right_length &&
         message_ == (position == Position::kFirst ? Message::kNone : message);
}

bool Responder::OnPlainWritePart(const PlainPacket& packet, Position position) {
  const bool first = position == Position::kFirst;
  const Reth& reth = first ? packet.reth : write_;
  const uint64_t received = first ? 0 : received_bytes_;
  const uint64_t after = received + packet.payload.size();
  // The packets must bring exactly what the RETH announced.
  const bool brings_its_part =
      position == Position::kLast ? after == reth.dma_length : after < reth.dma_length;
  const bool is_plain = IsPlainPartNow(packet, position, Message::kWrite) && brings_its_part &&
                        reth.dma_length <= kMaxMessageBytes &&
                        qp_.attributes.access.Allows(AccessFlags::kRemoteWrite);
  if (!is_plain) return false;
  const uint64_t length = first ? reth.dma_length : packet.payload.size();
  uint8_t* const target = qp_.environment.memory.RemoteAddress(remote_pd_, qp_.qpn, reth.rkey,
                                                               reth.virtual_address + received,
                                                               length, AccessFlags::kRemoteWrite);
  if (target == nullptr || !PlaceInOrder(target, packet.payload)) return false;
  if (first) write_ = reth;
  received_bytes_ = after;
  FinishPlainPart(packet, position, Message::kWrite);
  return true;
}

bool Responder::OnPlainSendPart(const PlainPacket& packet, Position position) {
  const bool first = position == Position::kFirst;
  if (!IsPlainPartNow(packet, position, Message::kSend)) return false;
  if (first && receives_.empty()) return false;
  const std::span<const ScatterGatherEntry> sges =
      first ? receives_.Next().sges : receives_.current().sges;
  const uint64_t received = first ? 0 : received_bytes_;
  const uint64_t after = received + packet.payload.size();
  if (sges.size() != 1 || sges.front().length < after) return false;
  uint8_t* const target = qp_.environment.memory.LocalAddress(
      receives_.pd(), sges.front().lkey, sges.front().address + received, packet.payload.size(),
      AccessFlags::kLocalWrite);
  const bool is_placed =
      target != nullptr && GuardedCopy(target, packet.payload.data(), packet.payload.size());
  if (!is_placed) return false;
  if (first) {
    receives_.Take();
    receive_cursor_ = SgeCursor(receives_.current().sges);
    receive_bytes_ = receives_.current().sges.front().length;
  }
  received_bytes_ = after;
  if (position == Position::kLast) CompletePlainSend(after, packet.solicited);
  FinishPlainPart(packet, position, Message::kSend);
  return true;
}

void Responder::FinishPlainPart(const PlainPacket& packet, Position position, Message message) {
  const bool last = position == Position::kLast;
  message_ = last ? Message::kNone : message;
  ++expected_psn_;
  if (last) CountMessage();
  NoteExecuted(packet.psn, last, packet.ack_request);
}

}  // namespace uroce::transport
