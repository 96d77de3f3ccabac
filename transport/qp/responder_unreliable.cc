#include <array>
#include <span>

#include "transport/qp/responder.h"
#include "transport/qp/responder_steps.h"
#include "transport/wire/encapsulation.h"

namespace uroce::transport {

// UC: nothing is answered. A message that lost a packet is dropped whole, and the next first or
// only packet begins anew wherever its PSN is (IBA 9.9.3.1 class D1).
DropReason Responder::OnUnreliable(const Packet& packet) {
  const bool lost_some = packet.psn != expected_psn_;
  expected_psn_ = packet.psn;  // incremented below, or by Execute
  if (message_ != Message::kNone && (lost_some || !IsInSequence(packet.opcode))) {
    AbandonMessage(CompletionStatus::kRemoteInvalidRequest, VendorError::kMessageTorn);
  }
  if (message_ == Message::kNone && !packet.opcode.StartsMessage()) {
    ++expected_psn_;
    return DropReason::kTornMessage;
  }
  const Verdict verdict = Validate(packet);
  if (verdict.action != Verdict::Action::kExecute) {
    ++expected_psn_;
    return DropMessage(verdict);
  }
  Execute(packet, verdict.target);
  return DropReason::kNone;
}

// UD (IBA 9.8.3): every packet is a message.
DropReason Responder::OnDatagram(const Packet& packet) {
  if (packet.deth.qkey != qp_.attributes.qkey) return DropReason::kBadQkey;  // IBA 9.6.1.4.1
  if (packet.payload.size() > qp_.mtu_bytes()) return DropReason::kMessageTooLong;
  if (receives_.empty()) return DropReason::kReceiverNotReady;
  const uint64_t bytes = kGrhBytes + packet.payload.size();
  if (bytes > TotalBytes(receives_.Next().sges)) {
    return DropMessage({.action = Verdict::Action::kNak,
                        .receive_status = CompletionStatus::kLocalLengthError,
                        .cause = VendorError::kReceiveTooSmall});
  }
  receives_.Take();
  message_ = Message::kSend;
  received_bytes_ = bytes;
  if (const auto result = ScatterDatagram(packet); result == SgeCursor::Result::kOk) {
    FinishMessage(packet.opcode, packet);
  } else {
    FailPlacement(result);
    failed_ = true;
  }
  return DropReason::kNone;
}

// IBA A17.4.5.2.
SgeCursor::Result Responder::ScatterDatagram(const Packet& packet) {
  SgeCursor cursor(receives_.current().sges);
  const MemoryTable& memory = qp_.environment.memory;
  std::array<uint8_t, kGrhBytes> ip_header;  // 20 bytes of IPv4 or 40 of IPv6
  const uint8_t* const end = EmitIpHeader(packet.flow, packet.identification,
                                          packet.padded_bytes + kIcrcBytes, ip_header.data());
  const std::span<const uint8_t> header(ip_header.data(), end);
  const auto result = cursor.Scatter(memory, receives_.pd(), kGrhBytes - header.size(), header);
  if (result != SgeCursor::Result::kOk) return result;
  return cursor.Scatter(memory, receives_.pd(), kGrhBytes, packet.payload);
}

// A frame that is longer than its receive request consumes it and moves the queue pair to ERR, as
// on NICs: mlx5e of Linux recovers a receive queue after this error.
DropReason Responder::OnRawFrame(std::span<const uint8_t> frame) {
  if (receives_.empty()) return DropReason::kReceiverNotReady;
  receives_.Take();
  if (frame.size() > TotalBytes(receives_.current().sges)) {
    FailReceive(CompletionStatus::kLocalLengthError, VendorError::kReceiveTooSmall);
    failed_ = true;
    return DropReason::kMessageTooLong;
  }
  SgeCursor cursor(receives_.current().sges);
  const auto result = cursor.Scatter(qp_.environment.memory, receives_.pd(), 0, frame);
  if (result != SgeCursor::Result::kOk) {
    FailPlacement(result);
    failed_ = true;
    return DropReason::kNone;
  }
  Completion completion = NewCompletion();
  completion.byte_length = static_cast<uint32_t>(frame.size());
  Push(completion, /*solicited=*/false);
  return DropReason::kNone;
}

// Drops the message of a packet that failed the checks.
DropReason Responder::DropMessage(const Verdict& verdict) {
  if (verdict.action == Verdict::Action::kRnrNak) {
    message_ = Message::kNone;
    return DropReason::kReceiverNotReady;
  }
  const VendorError reason = UseUpReceive(verdict);
  AbandonMessage(verdict.receive_status, reason);
  return reason == VendorError::kReceiveTooSmall ? DropReason::kMessageTooLong
                                                 : DropReason::kRefused;
}

// Gives up the message being received. Its receive request waits for the next one
// (IBA 9.9.3.1 class D); but a request that was taken out of a shared queue cannot go back and
// completes in error (IBA 9.9.3.1 class E).
void Responder::AbandonMessage(CompletionStatus status, VendorError reason) {
  message_ = Message::kNone;
  if (!receives_.in_use()) return;
  if (!receives_.is_shared()) return receives_.PutBack();
  FailReceive(status, reason);
}

}  // namespace uroce::transport
