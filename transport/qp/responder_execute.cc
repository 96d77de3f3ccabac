#include <atomic>
#include <cstring>

#include "transport/completion_queue.h"
#include "transport/guarded_access.h"
#include "transport/qp/responder.h"
#include "transport/qp/responder_steps.h"

namespace uroce::transport {

Responder::Responder(QpContext& qp, ReceiveQueue receives)
    : ResponderState(
          qp, std::move(receives),
          qp.init.xrc_key.IsZero() ? nullptr : std::make_unique<RelayedRequests>(qp, *this)) {}

void Responder::Start(Psn first_psn) {
  expected_psn_ = first_psn;
  ack_psn_ = first_psn - 1;
  replies_.Configure(qp_.attributes.max_dest_read_atomic);
}

void Responder::Reset() {
  receives_.Clear();
  replies_.Configure(0);
  expected_psn_ = Psn();
  ack_psn_ = Psn();
  msn_ = ack_msn_ = 0;
  acknowledge_ = Acknowledge::kNone;
  nak_sent_ = false;
  CloseGap();
  early_packets_.Clear();
  reorder_window_ = {};
  awaits_receive_ = false;
  failed_ = false;
  failure_event_.reset();
  message_ = Message::kNone;
  if (relayed_ != nullptr) relayed_->Reset();
}

// IBA 9.7.4.1.2: a request is the expected one, a duplicate, or beyond a gap.
DropReason Responder::OnRequest(Time now, const Packet& packet) {
  if (packet.opcode.HasXrceth()) {
    if (relayed_ != nullptr && relayed_->Concern(packet)) return relayed_->OnRequest(packet);
    ChooseQueue(packet.xrceth.srqn);
  }
  const int32_t distance = packet.psn.DistanceFrom(expected_psn_);
  if (distance > 0) return OnSequenceGap(now, packet);
  if (distance < 0) {
    reorder_window_.OnDuplicate(packet.psn);
    return OnDuplicate(packet);
  }
  const bool had_open_gap = qp_.has_open_gap;
  const bool is_to_be_reported =
      acknowledge_ == Acknowledge::kSequenceNak || acknowledge_ == Acknowledge::kSelectiveAck;
  const bool was_reported = nak_due_ == kNever && !is_to_be_reported;
  const DropReason result = OnExpected(packet);
  if (had_open_gap) [[unlikely]]
    FollowGap(now, packet.psn, was_reported);
  return result;
}

DropReason Responder::OnExpected(const Packet& packet) {
  const Verdict verdict = Validate(packet);
  if (verdict.action != Verdict::Action::kExecute) {
    Refuse(packet, verdict);
    return verdict.reason;
  }
  nak_sent_ = false;
  awaits_receive_ = false;
  const bool owes_other_answer =
      acknowledge_ == Acknowledge::kSequenceNak || acknowledge_ == Acknowledge::kSelectiveAck ||
      acknowledge_ == Acknowledge::kRnrNak || acknowledge_ == Acknowledge::kReady;
  if (owes_other_answer) acknowledge_ = Acknowledge::kAck;
  Execute(packet, verdict.target);
  return DropReason::kNone;
}

void Responder::Execute(const Packet& packet, uint8_t* target) {
  switch (packet.opcode.operation) {
    case Operation::kSend:
    case Operation::kWrite:
      return ExecuteMessage(packet.opcode, packet, target);
    case Operation::kReadRequest:
      return ExecuteRead(packet);
    case Operation::kFlush:
      return ExecuteFlush(packet);
    case Operation::kAtomicWrite:
      return ExecuteAtomicWrite(packet, target);
    default:
      return ExecuteAtomic(packet);
  }
}

// Before the receive completes (IBA 9.4.1.1).
bool Responder::Invalidate(RKey rkey) {
  if (qp_.environment.memory.InvalidateWindow(remote_pd_, qp_.qpn, rkey) == Status::kOk) {
    return true;
  }
  // The data has arrived, and the peer is told nothing (IBA 9.9.3.1 class J).
  FailReceive(CompletionStatus::kRemoteInvalidRequest, VendorError::kInvalidateKey);
  failed_ = true;
  return false;
}

// A request passed all checks, but its memory is gone: it is refused like one with a wrong key.
void Responder::RefuseForGoneMemory(const Packet& packet) {
  ++qp_.counters.memory_gone;
  const Verdict verdict = {Verdict::Action::kNak, NakCode::kRemoteAccessError,
                           CompletionStatus::kLocalAccessError};
  if (qp_.is_reliable()) return Refuse(packet, verdict);
  ++expected_psn_;
  (void)DropMessage(verdict);
}

void Responder::ExecuteRead(const Packet& packet) {
  CountMessage();
  const uint32_t packets = PacketsOf(packet.reth.dma_length);
  replies_.Push({.first_psn = packet.psn,
                 .next_psn = packet.psn,
                 .end_psn = packet.psn + packets,
                 .msn = msn_,
                 .pd = remote_pd_,
                 .read = packet.reth});
  expected_psn_ = expected_psn_ + packets;
  AcknowledgeByReply();
}

// IBA 9.4.5. The memory is naturally aligned, and other processors may work on it at the same time.
void Responder::ExecuteAtomic(const Packet& packet) {
  const AtomicEth& request = packet.atomic;
  uint8_t* bytes = RemoteMemory(request.rkey, request.virtual_address, sizeof(uint64_t),
                                AccessFlags::kRemoteAtomic);
  auto* const target = reinterpret_cast<uint64_t*>(bytes);
  uint64_t original;
  const bool done =
      packet.opcode.operation == Operation::kFetchAndAdd
          ? GuardedFetchAdd(target, request.swap_or_add, &original)
          : GuardedCompareSwap(target, request.compare, request.swap_or_add, &original);
  if (!done) return RefuseForGoneMemory(packet);
  ReplyToAtomic(packet.psn, original);
}

void Responder::ReplyToAtomic(Psn psn, uint64_t original) {
  CountMessage();
  replies_.RememberAtomic(psn, original);
  replies_.Push({.is_atomic = true,
                 .first_psn = psn,
                 .next_psn = psn,
                 .end_psn = psn + 1,
                 .msn = msn_,
                 .atomic_result = original});
  ++expected_psn_;
  AcknowledgeByReply();
}

// IBA A19.4.2. No reader sees a part of the number, nor the number before earlier writes.
void Responder::ExecuteAtomicWrite(const Packet& packet, uint8_t* target) {
  uint64_t number;
  std::memcpy(&number, packet.payload.data(), sizeof number);
  if (!GuardedStore(reinterpret_cast<uint64_t*>(target), number)) {
    return RefuseForGoneMemory(packet);
  }
  ReplyWithoutData(packet);
}

// The processors and devices of this host see its memory alike, so earlier writes are visible once
// the stores of this thread have left its processor. Behind an atomic exchange they have. (Not a
// fence: the thread sanitizer knows none.)
void Responder::ExecuteFlush(const Packet& packet) {
  std::atomic<bool> has_left = false;
  has_left.exchange(true, std::memory_order_seq_cst);
  ReplyWithoutData(packet);
}

// A FLUSH or ATOMIC WRITE is answered as a READ of no bytes.
void Responder::ReplyWithoutData(const Packet& packet) {
  CountMessage();
  replies_.Push(
      {.first_psn = packet.psn, .next_psn = packet.psn, .end_psn = packet.psn + 1, .msn = msn_});
  ++expected_psn_;
  AcknowledgeByReply();
}

// The response to the last request also acknowledges those before it (IBA 9.7.5.1.2).
void Responder::AcknowledgeByReply() {
  if (acknowledge_ == Acknowledge::kAck) acknowledge_ = Acknowledge::kNone;
}

// IBA 11.4.2.1.
Completion Responder::NewCompletion() const {
  Completion completion;
  completion.wr_id = receives_.current().wr_id;
  completion.opcode = CompletionOpcode::kReceive;
  completion.qpn = reported_qpn_;
  completion.source_qpn = qp_.attributes.destination_qpn;
  return completion;
}

// The receive request in use completes in error.
void Responder::FailReceive(CompletionStatus status, VendorError reason) {
  Completion completion = NewCompletion();
  completion.status = status;
  completion.vendor_error = reason;
  Push(completion, /*solicited=*/true);
}

// The payload cannot be written to the memory of the receive request in use.
void Responder::FailPlacement(SgeCursor::Result result) {
  const bool gone = result == SgeCursor::Result::kMemoryGone;
  if (gone) ++qp_.counters.memory_gone;
  FailReceive(CompletionStatus::kLocalProtectionError,
              gone ? VendorError::kMemoryGone : VendorError::kLocalKeyInvalid);
}

// A receive request that is too small for the message is used up by the attempt, as it would be by
// the first packet of a longer one. Returns the vendor error for a message that cannot be received.
VendorError Responder::UseUpReceive(const Verdict& verdict) {
  const bool takes = verdict.cause == VendorError::kReceiveTooSmall && !receives_.in_use();
  if (takes) receives_.Take();
  return verdict.cause;
}

void Responder::Push(const Completion& completion, bool solicited) {
  if (!receive_cq_->Push(completion, solicited)) qp_.completion_lost = true;
  receives_.Finish();
}

void Responder::Flush(VendorError why) {
  if (receives_.in_use()) FailReceive(CompletionStatus::kFlushed, why);
  while (!receives_.is_shared() && !receives_.empty()) {
    receives_.Take();
    FailReceive(CompletionStatus::kFlushed, why);
  }
  message_ = Message::kNone;
  awaits_receive_ = false;
  CloseGap();
  early_packets_.Clear();
  if (relayed_ != nullptr) relayed_->Reset();
  // After a failure of the responder the peer still gets the replies, then the NAK; else nothing.
  if (failed()) return;
  replies_.Clear();
  acknowledge_ = Acknowledge::kNone;
}

// A request before the expected PSN was executed already; its response may have been lost. SENDs
// and WRITEs are not executed again (IBA C9-105).
DropReason Responder::OnDuplicate(const Packet& packet) {
  ++qp_.counters.duplicate_requests;
  switch (packet.opcode.operation) {
    case Operation::kReadRequest:
      return ReplayRead(packet);
    case Operation::kCompareAndSwap:
    case Operation::kFetchAndAdd:
      return ReplayAtomic(packet);
    case Operation::kFlush:
    case Operation::kAtomicWrite:
      return ReplayWithoutData(packet);
    default:
      if (acknowledge_ == Acknowledge::kNone) acknowledge_ = Acknowledge::kAck;
      return DropReason::kDuplicateRequest;
  }
}

// A READ is executed again with the R_Key it brings now (IBA 9.7.5.1.4). It may ask only for data
// that was asked for before: all its PSNs must be before the expected one.
DropReason Responder::ReplayRead(const Packet& packet) {
  const uint32_t packets = PacketsOf(packet.reth.dma_length);
  const uint32_t executed = (expected_psn_.value() - packet.psn.value()) & Psn::kMask;
  if (packets > executed || !MayRead(packet.reth)) return DropReason::kDuplicateNotHeld;
  const bool queued = replies_.PushReplay({.is_replay = true,
                                           .first_psn = packet.psn,
                                           .next_psn = packet.psn,
                                           .end_psn = packet.psn + packets,
                                           .msn = msn_,
                                           .pd = remote_pd_,
                                           .read = packet.reth});
  return queued ? DropReason::kDuplicateRequest : DropReason::kDuplicateNotHeld;
}

// An atomic is never executed twice: its result was kept (IBA 9.7.5.1.4).
DropReason Responder::ReplayAtomic(const Packet& packet) {
  const uint64_t* result = replies_.FindAtomic(packet.psn);
  if (result == nullptr) return DropReason::kDuplicateNotHeld;
  const bool queued = replies_.PushReplay({.is_atomic = true,
                                           .is_replay = true,
                                           .first_psn = packet.psn,
                                           .next_psn = packet.psn,
                                           .end_psn = packet.psn + 1,
                                           .msn = msn_,
                                           .atomic_result = *result});
  return queued ? DropReason::kDuplicateRequest : DropReason::kDuplicateNotHeld;
}

// A FLUSH or ATOMIC WRITE is not executed again: its memory may hold something newer by now. The
// response has no data that would have to be kept (IBA oA19-14, oA19-15).
DropReason Responder::ReplayWithoutData(const Packet& packet) {
  const bool queued = replies_.PushReplay({.is_replay = true,
                                           .first_psn = packet.psn,
                                           .next_psn = packet.psn,
                                           .end_psn = packet.psn + 1,
                                           .msn = msn_});
  return queued ? DropReason::kDuplicateRequest : DropReason::kDuplicateNotHeld;
}

uint32_t Responder::PacketsOf(uint32_t bytes) const {
  return bytes == 0 ? 1 : (bytes - 1) / qp_.mtu_bytes() + 1;
}

}  // namespace uroce::transport
