#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/guarded_access.h"
#include "transport/limits.h"
#include "transport/qp/responder.h"

// The steps of SENDs and WRITEs: the checks and the execution. They are inlined and take the opcode
// as an argument of its own, so that header prediction has them compiled for each opcode.
namespace uroce::transport {

// A message is first, middles, last, or only; nothing may come between its packets
// (IBA 9.7.4.1.3).
[[gnu::always_inline]] inline bool Responder::IsInSequence(Opcode opcode) const {
  if (opcode.StartsMessage()) return message_ == Message::kNone;
  return message_ == (opcode.operation == Operation::kSend ? Message::kSend : Message::kWrite);
}

// First and middle packets are full, the last of several is not empty, none is longer than the path
// MTU (IBA C9-92).
[[gnu::always_inline]] inline bool Responder::HasValidLength(Opcode opcode, size_t bytes) const {
  switch (opcode.position) {
    case Position::kFirst:
    case Position::kMiddle:
      return bytes == qp_.mtu_bytes();
    case Position::kLast:
      return bytes >= 1 && bytes <= qp_.mtu_bytes();
    default:
      return bytes <= qp_.mtu_bytes();
  }
}

// The memory that the peer's access names, nullptr if it is not permitted (IBA 9.7.4.1.5).
inline uint8_t* Responder::RemoteMemory(RKey rkey, uint64_t address, uint64_t length,
                                        uint32_t wanted) const {
  return qp_.environment.memory.RemoteAddress(remote_pd_, qp_.qpn, rkey, address, length, wanted);
}

[[gnu::always_inline]] inline Responder::Verdict Responder::CheckSend(Opcode opcode,
                                                                      const Packet& packet) const {
  const bool starts = opcode.StartsMessage();
  const auto sges = starts ? receives_.Next().sges : receives_.current().sges;
  const uint64_t received = starts ? 0 : received_bytes_;
  const size_t bytes = packet.payload.size();
  if (received + bytes > TotalBytes(sges)) {  // the receive completes with "local length"
    return {Verdict::Action::kNak, NakCode::kInvalidRequest, CompletionStatus::kLocalLengthError,
            VendorError::kReceiveTooSmall};
  }
  if (sges.size() != 1 || bytes == 0) return {};
  const ScatterGatherEntry& piece = sges.front();
  return {.target = qp_.environment.memory.LocalAddress(receives_.pd(), piece.lkey,
                                                        piece.address + received, bytes,
                                                        AccessFlags::kLocalWrite)};
}

[[gnu::always_inline]] inline Responder::Verdict Responder::CheckWrite(Opcode opcode,
                                                                       const Packet& packet) const {
  constexpr auto kInvalidRequest = Verdict{Verdict::Action::kNak};
  constexpr auto kAccessError = Verdict{Verdict::Action::kNak, NakCode::kRemoteAccessError,
                                        CompletionStatus::kLocalAccessError};
  const bool starts = opcode.StartsMessage();
  const Reth& reth = starts ? packet.reth : write_;
  const uint64_t received = starts ? 0 : received_bytes_;
  const uint64_t after = received + packet.payload.size();

  if (reth.dma_length > kMaxMessageBytes) return kInvalidRequest;  // IBA C9-94
  // The packets must bring exactly what the RETH announced.
  if (opcode.EndsMessage() ? after != reth.dma_length : after >= reth.dma_length) {
    return WrongLength();
  }
  // A zero-length WRITE touches no memory and its R_Key is not checked (IBA C9-88).
  const uint64_t length = starts ? reth.dma_length : packet.payload.size();
  if (length == 0) return {};
  uint8_t* const target =
      RemoteMemory(reth.rkey, reth.virtual_address + received, length, AccessFlags::kRemoteWrite);
  if (target == nullptr) return kAccessError;
  return {.target = target};
}

// Programs poll the last byte of a message to learn that all of it is there.
inline bool Responder::PlaceInOrder(uint8_t* to, std::span<const uint8_t> bytes) {
  const size_t last = bytes.size() - 1;
  return GuardedCopy(to, bytes.data(), last) && GuardedStore(to + last, bytes[last]);
}

[[gnu::always_inline]] inline bool Responder::ExecuteSend(Opcode opcode, const Packet& packet,
                                                          uint8_t* target) {
  if (opcode.StartsMessage()) {
    receives_.Take();
    message_ = Message::kSend;
    received_bytes_ = 0;
    const bool goes_on = target == nullptr || !opcode.EndsMessage();
    if (goes_on) receive_cursor_ = SgeCursor(receives_.current().sges);
  }
  const std::span<const uint8_t> data = packet.payload;
  SgeCursor::Result result = SgeCursor::Result::kOk;
  if (target == nullptr) {
    result = receive_cursor_.Scatter(qp_.environment.memory, receives_.pd(), received_bytes_, data);
  } else if (!GuardedCopy(target, data.data(), data.size())) {
    result = SgeCursor::Result::kMemoryGone;
  }
  if (result != SgeCursor::Result::kOk) [[unlikely]] {
    // IBA 9.9.3.1 class A.
    FailPlacement(result);
    FailWithNak(NakCode::kRemoteOperationalError);
    return false;
  }
  return !opcode.HasIeth() || Invalidate(packet.invalidate_rkey);
}

[[gnu::always_inline]] inline bool Responder::ExecuteWrite(Opcode opcode, const Packet& packet,
                                                           uint8_t* target) {
  if (opcode.StartsMessage()) {
    message_ = Message::kWrite;
    received_bytes_ = 0;
    if (!opcode.EndsMessage()) write_ = packet.reth;
  }
  if (packet.payload.empty() || PlaceInOrder(target, packet.payload)) [[likely]]
    return true;
  RefuseForGoneMemory(packet);
  return false;
}

[[gnu::always_inline]] inline void Responder::CompleteReceive(Opcode opcode, const Packet& packet) {
  Completion completion = NewCompletion();
  completion.byte_length = static_cast<uint32_t>(received_bytes_);
  if (message_ == Message::kWrite) completion.opcode = CompletionOpcode::kReceiveRdmaWithImmediate;
  if (opcode.HasDeth()) {
    completion.flags |= Completion::kHasGrh;
    completion.datagram_ip = packet.flow.is_ipv6() ? DatagramIp::kIpv6 : DatagramIp::kIpv4;
    completion.source_qpn = packet.deth.source_qpn;
  }
  if (opcode.HasImmediate()) {
    completion.flags |= Completion::kHasImmediate;
    completion.immediate_or_rkey = packet.immediate;
  } else if (opcode.HasIeth()) {
    completion.flags |= Completion::kHasInvalidate;
    completion.immediate_or_rkey = packet.invalidate_rkey.value;
  }
  Push(completion, packet.solicited);
}

[[gnu::always_inline]] inline void Responder::FinishMessage(Opcode opcode, const Packet& packet) {
  // Taken only when all of the WRITE has arrived (IBA C10-87).
  if (message_ == Message::kWrite && opcode.HasImmediate()) receives_.Take();
  if (receives_.in_use()) CompleteReceive(opcode, packet);
  message_ = Message::kNone;
  CountMessage();
}

// `target` is Verdict::target.
[[gnu::always_inline]] inline void Responder::ExecuteMessage(Opcode opcode, const Packet& packet,
                                                             uint8_t* target) {
  const bool is_executed = opcode.operation == Operation::kSend
                               ? ExecuteSend(opcode, packet, target)
                               : ExecuteWrite(opcode, packet, target);
  if (!is_executed) [[unlikely]]
    return;
  ++expected_psn_;
  received_bytes_ += packet.payload.size();
  if (opcode.EndsMessage()) FinishMessage(opcode, packet);
  NoteExecuted(packet.psn, opcode.EndsMessage(), packet.ack_request && qp_.is_reliable());
}

}  // namespace uroce::transport
