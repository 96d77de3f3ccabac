#include "transport/limits.h"
#include "transport/qp/responder.h"
#include "transport/qp/responder_steps.h"

namespace uroce::transport {
namespace {

// The bit of ibv_access_flags. Queue pairs may have it; the memory of a host is not persistent.
constexpr uint32_t kFlushPersistent = 1 << 9;

bool IsPlacement(uint8_t bits) {
  constexpr uint8_t kKnown = Placement::kGlobal | Placement::kPersistent;
  return bits != 0 && (bits & ~kKnown) == 0;
}

// The access that a FLUSH needs, of the queue pair and of the memory (IBA A19.4.1.1).
uint32_t AccessFor(uint8_t placement) {
  return ((placement & Placement::kGlobal) != 0 ? AccessFlags::kFlushGlobal : 0) |
         ((placement & Placement::kPersistent) != 0 ? kFlushPersistent : 0);
}

}  // namespace

// Header prediction, which holds for nearly all requests: the packet is the next one of a SEND or
// WRITE, and no NAK is owed or was sent. Of the checks of Validate only those of the operation are
// left then.
template <uint8_t kOpcode>
inline bool Responder::ExecutePredicted(const PacketView& view) {
  constexpr Opcode kParsed = ReliableOpcode(kOpcode);
  UnsetPacket unset;
  Packet& packet = unset.packet;
  const bool is_predicted = ReadPredicted<kOpcode>(view, packet) && packet.psn == expected_psn_ &&
                            !nak_sent_ && !packet.payload.empty() && IsInSequence(kParsed) &&
                            HasValidLength(kParsed, packet.payload.size());
  if (!is_predicted) return false;
  constexpr bool kIsSend = kParsed.operation == Operation::kSend;
  const bool is_enabled = kIsSend ? !kParsed.StartsMessage() || !receives_.empty()
                                  : qp_.attributes.access.Allows(AccessFlags::kRemoteWrite);
  if (!is_enabled) return false;
  uint8_t* const target =
      kIsSend ? CheckSend(kParsed, packet).target : CheckWrite(kParsed, packet).target;
  if (target == nullptr) return false;
  ExecuteMessage(kParsed, packet, target);
  return true;
}

bool Responder::ExecutePredicted(const PacketView& view) {
  switch (view.opcode()) {
    case kRcSendFirst:
      return ExecutePredicted<kRcSendFirst>(view);
    case kRcSendMiddle:
      return ExecutePredicted<kRcSendMiddle>(view);
    case kRcSendLast:
      return ExecutePredicted<kRcSendLast>(view);
    case kRcSendOnly:
      return ExecutePredicted<kRcSendOnly>(view);
    case kRcWriteFirst:
      return ExecutePredicted<kRcWriteFirst>(view);
    case kRcWriteMiddle:
      return ExecutePredicted<kRcWriteMiddle>(view);
    case kRcWriteLast:
      return ExecutePredicted<kRcWriteLast>(view);
    case kRcWriteOnly:
      return ExecutePredicted<kRcWriteOnly>(view);
    default:
      return false;
  }
}

// The checks of a request with the expected PSN (IBA 9.7.4.1): opcode sequence, shared queue of
// XRC, permission, packet length, receive request, then those of the operation itself. The first
// one that fails decides.
Responder::Verdict Responder::Validate(const Packet& packet) const {
  if (!IsInSequence(packet.opcode)) {  // IBA 11.6.3.2 QP_REQ_ERR
    return {.action = Verdict::Action::kNak, .event = EventType::kQpRequestError};
  }
  if (!is_queue_known_) {
    return {.action = Verdict::Action::kNak, .reason = DropReason::kUnknownSrq};
  }
  if (!IsEnabled(packet)) {
    return {.action = Verdict::Action::kNak,
            .receive_status = CompletionStatus::kLocalAccessError,
            .event = EventType::kQpRequestError};
  }
  if (!HasValidLength(packet.opcode, packet.payload.size())) return WrongLength();
  if (NeedsReceive(packet.opcode) && receives_.empty()) {
    return {.action = Verdict::Action::kRnrNak, .reason = DropReason::kReceiverNotReady};
  }
  switch (packet.opcode.operation) {
    case Operation::kSend:
      return CheckSend(packet.opcode, packet);
    case Operation::kWrite:
      return CheckWrite(packet.opcode, packet);
    case Operation::kReadRequest:
      return CheckRead(packet);
    case Operation::kFlush:
      return CheckFlush(packet);
    case Operation::kAtomicWrite:
      return CheckAtomicWrite(packet);
    default:
      return CheckAtomic(packet);
  }
}

// Whether the queue pair permits the operation at all. If not, the request counts as unsupported,
// not as an access to forbidden memory (IBA 9.7.4.1.4).
bool Responder::IsEnabled(const Packet& packet) const {
  const AccessFlags access = qp_.attributes.access;
  switch (packet.opcode.operation) {
    case Operation::kSend:
      return true;
    case Operation::kFlush:
      return IsPlacement(packet.feth.placement) && access.Allows(AccessFor(packet.feth.placement));
    case Operation::kAtomicWrite:
    case Operation::kWrite:
      return access.Allows(AccessFlags::kRemoteWrite);
    case Operation::kReadRequest:
      return access.Allows(AccessFlags::kRemoteRead);
    default:
      return access.Allows(AccessFlags::kRemoteAtomic);
  }
}

// NICs report a wrong length where the data was to go. A UC message is dropped with no more than
// that (IBA 9.9.3.1 class D).
Responder::Verdict Responder::WrongLength() const {
  if (!qp_.is_reliable()) return {.action = Verdict::Action::kNak};
  return {.action = Verdict::Action::kNak, .receive_status = CompletionStatus::kLocalLengthError};
}

// A SEND takes its receive request with its first packet, a WRITE with immediate with its last.
bool Responder::NeedsReceive(const Opcode& opcode) const {
  if (opcode.operation == Operation::kSend) return opcode.StartsMessage();
  return opcode.operation == Operation::kWrite && opcode.HasImmediate();
}

Responder::Verdict Responder::CheckRead(const Packet& packet) const {
  // More requests than max_dest_rd_atomic (IBA 9.4.4).
  if (!replies_.HasRoom()) return {Verdict::Action::kNak};
  if (packet.reth.dma_length > kMaxMessageBytes) return {Verdict::Action::kNak};  // IBA C9-94
  if (!MayRead(packet.reth)) return {Verdict::Action::kNak, NakCode::kRemoteAccessError};
  return {};
}

// A zero-length READ touches no memory and its R_Key is not checked (IBA C9-88).
bool Responder::MayRead(const Reth& reth) const {
  return qp_.attributes.access.Allows(AccessFlags::kRemoteRead) &&
         (reth.dma_length == 0 || RemoteMemory(reth.rkey, reth.virtual_address, reth.dma_length,
                                               AccessFlags::kRemoteRead) != nullptr);
}

Responder::Verdict Responder::CheckAtomic(const Packet& packet) const {
  constexpr uint64_t kAtomicBytes = 8;
  if (!replies_.HasRoom()) return {Verdict::Action::kNak};
  // The virtual address must be aligned, whatever the key (IBA 9.4.5).
  if (packet.atomic.virtual_address % kAtomicBytes != 0) return {Verdict::Action::kNak};
  const uint8_t* target = RemoteMemory(packet.atomic.rkey, packet.atomic.virtual_address,
                                       kAtomicBytes, AccessFlags::kRemoteAtomic);
  if (target == nullptr) return {Verdict::Action::kNak, NakCode::kRemoteAccessError};
  // A region whose iova is not congruent to the memory behind it must not be accessed unaligned.
  if (reinterpret_cast<uintptr_t>(target) % kAtomicBytes != 0) return {Verdict::Action::kNak};
  return {};
}

// IBA A19.4.2: eight bytes, naturally aligned in the virtual address and in our memory, as for an
// atomic.
Responder::Verdict Responder::CheckAtomicWrite(const Packet& packet) const {
  constexpr uint32_t kBytes = 8;
  const Reth& reth = packet.reth;
  if (!replies_.HasRoom()) return {Verdict::Action::kNak};
  if (packet.payload.size() != kBytes || reth.dma_length != kBytes) {
    return {Verdict::Action::kNak};
  }
  if (reth.virtual_address % kBytes != 0) return {Verdict::Action::kNak};
  uint8_t* const target =
      RemoteMemory(reth.rkey, reth.virtual_address, kBytes, AccessFlags::kRemoteWrite);
  if (target == nullptr) {  // IBA oA19-28
    return {Verdict::Action::kNak, NakCode::kRemoteAccessError};
  }
  if (reinterpret_cast<uintptr_t>(target) % kBytes != 0) return {Verdict::Action::kNak};
  return {.target = target};
}

// IBA A19.4.1.2: for a whole region only the key is checked. A range of no bytes needs a valid key,
// too. No memory of ours outlives a loss of power, so no key permits a FLUSH for persistence.
Responder::Verdict Responder::CheckFlush(const Packet& packet) const {
  const Reth& reth = packet.reth;
  if (!replies_.HasRoom() || packet.feth.selectivity > Selectivity::kRegion) {
    return {Verdict::Action::kNak};
  }
  if (reth.dma_length > kMaxMessageBytes) return {Verdict::Action::kNak};  // IBA C9-94
  const uint32_t wanted = AccessFor(packet.feth.placement);
  const bool is_permitted =
      packet.feth.selectivity == Selectivity::kRegion
          ? qp_.environment.memory.RemotePermits(remote_pd_, qp_.qpn, reth.rkey, wanted)
          : RemoteMemory(reth.rkey, reth.virtual_address, reth.dma_length, wanted) != nullptr;
  if (!is_permitted) return {Verdict::Action::kNak, NakCode::kRemoteAccessError};
  return {};
}

}  // namespace uroce::transport
