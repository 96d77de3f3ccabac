#include "transport/completion_queue.h"
#include "transport/guarded_access.h"
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
  Completion completion = NewCompletion();
  completion.byte_length = static_cast<uint32_t>(packet.payload.size());
  Push(completion, packet.solicited);
  FinishPlain(packet);
  return true;
}

void Responder::FinishPlain(const PlainPacket& packet) {
  ++expected_psn_;
  CountMessage();
  NoteExecuted(packet.psn, /*ends_message=*/true, packet.ack_request);
}

}  // namespace uroce::transport
