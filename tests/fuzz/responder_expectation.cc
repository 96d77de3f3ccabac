// Predicts the result of a request: the rules of the specification, written independently of the
// responder's code.
#include <algorithm>
#include <cstdint>

#include "tests/fuzz/fuzz_peer.h"
#include "tests/fuzz/responder_model.h"
#include "transport/limits.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;

constexpr uint64_t kLongestMessage = 1ull << 31;

bool TakesRequests(QpState state) {
  return state == QpState::kReadyToReceive || state == QpState::kReadyToSend ||
         state == QpState::kSendQueueDrain || state == QpState::kSendQueueError;
}

Service ServiceOf(QpType type) {
  return type == QpType::kReliableConnection     ? Service::kReliableConnection
         : type == QpType::kUnreliableConnection ? Service::kUnreliableConnection
         : type == QpType::kXrcReceive           ? Service::kExtendedReliableConnection
                                                 : Service::kUnreliableDatagram;
}

}  // namespace

DropReason ResponderModel::Expect(const Packet& packet) {
  if (packet.opcode.service != ServiceOf(type_)) return DropReason::kWrongService;
  if (!TakesRequests(qp_.state())) return DropReason::kQpNotReady;
  if (is_datagram()) return ExpectDatagram(packet);
  if (packet.flow.source != kPeerGid) return DropReason::kForeignSource;
  if (is_target()) ChooseQueue(packet.xrceth.srqn);
  return is_reliable() ? ExpectReliable(packet) : ExpectUnreliable(packet);
}

// All packets of a message must name the same queue.
void ResponderModel::ChooseQueue(Srqn srqn) {
  constexpr PdId kNoPd{0xffff};
  const auto named = xrc_queues_.find(srqn);
  const bool is_known = named != xrc_queues_.end();
  if (!message_) receives_ = is_known ? named->second : &none_;
  is_queue_known_ = is_known && named->second == receives_;
  remote_pd_ = is_known ? named->second->pd : kNoPd;
}

// IBA 9.7.4.1
DropReason ResponderModel::ExpectReliable(const Packet& packet) const {
  if (packet.psn.IsAfter(expected_psn_)) return DropReason::kSequenceGap;
  if (packet.psn.IsBefore(expected_psn_)) return DropReason::kDuplicateRequest;
  const DropReason verdict = Judge(packet);
  return verdict == DropReason::kMessageTooLong ? DropReason::kRefused : verdict;
}

// IBA 9.8.2: a message that lost a packet, or that another message interrupts, is dropped whole.
DropReason ResponderModel::ExpectUnreliable(const Packet& packet) {
  const bool lost_some = packet.psn != expected_psn_;
  expected_psn_ = packet.psn;
  if (message_ && (lost_some || !IsInSequence(packet))) TearMessage();
  if (!message_ && !packet.opcode.StartsMessage()) return DropReason::kTornMessage;
  const DropReason verdict = Judge(packet);
  if (verdict == DropReason::kMessageTooLong && !taken_ && receives_->is_shared) {
    Take();  // IBA 9.9.3.1 class E: the attempt uses up the receive
  }
  if (verdict != DropReason::kNone) TearMessage();
  return verdict;
}

// IBA 9.8.3
DropReason ResponderModel::ExpectDatagram(const Packet& packet) {
  if (packet.deth.qkey != kFuzzQkey) return DropReason::kBadQkey;
  if (receives_->queue.empty()) return DropReason::kReceiverNotReady;
  const uint64_t room = RoomIn(receives_->queue.front().sges);
  if (kGrhBytes + packet.payload.size() <= room) return DropReason::kNone;
  if (receives_->is_shared) Take();
  TearMessage();
  return DropReason::kMessageTooLong;
}

// A torn message leaves the receive of an own queue to the next message (IBA 9.9.3.1 class D), and
// completes that of a shared queue in error (IBA 9.9.3.1 class E).
void ResponderModel::TearMessage() {
  message_.reset();
  if (!taken_) return;
  if (receives_->is_shared) {
    torn_.push_back(taken_->wr_id);
  } else {
    receives_->queue.push_front(*taken_);
  }
  taken_.reset();
}

// The responder's checks in their order, from the opcode on.
DropReason ResponderModel::Judge(const Packet& packet) const {
  const Operation operation = packet.opcode.operation;
  if (!IsInSequence(packet)) return DropReason::kRefused;
  if (!is_queue_known_) return DropReason::kUnknownSrq;
  if (!IsEnabled(packet) || !HasValidLength(packet)) return DropReason::kRefused;
  if (NeedsReceive(packet) && receives_->queue.empty()) return DropReason::kReceiverNotReady;
  if (operation == Operation::kSend) {
    return Fits(packet) ? DropReason::kNone : DropReason::kMessageTooLong;
  }
  const bool permitted =
      operation == Operation::kWrite ? IsWritePermitted(packet)
      : operation == Operation::kReadRequest
          ? IsReadPermitted(packet.reth) && packet.reth.dma_length <= kLongestMessage
      : operation == Operation::kFlush       ? IsFlushPermitted(packet)
      : operation == Operation::kAtomicWrite ? IsAtomicWritePermitted(packet)
                                             : IsAtomicPermitted(packet.atomic);
  const bool has_resources =
      operation == Operation::kWrite || ReadsOutstanding() < qp_.Query().max_dest_read_atomic;
  return permitted && has_resources ? DropReason::kNone : DropReason::kRefused;
}

// A message is a first packet, middles and a last one, or an only packet, without interruption.
bool ResponderModel::IsInSequence(const Packet& packet) const {
  if (packet.opcode.StartsMessage()) return !message_;
  return message_ == packet.opcode.operation;
}

bool ResponderModel::IsEnabled(const Packet& packet) const {
  switch (packet.opcode.operation) {
    case Operation::kSend:
      return true;
    case Operation::kWrite:
    case Operation::kAtomicWrite:
      return Allows(A::kRemoteWrite);
    case Operation::kFlush:  // to global visibility alone
      return Allows(A::kFlushGlobal) && packet.feth.placement == 1;
    case Operation::kReadRequest:
      return Allows(A::kRemoteRead);
    default:
      return Allows(A::kRemoteAtomic);
  }
}

bool ResponderModel::HasValidLength(const Packet& packet) const {
  const size_t bytes = packet.payload.size();
  if (!packet.opcode.EndsMessage()) return bytes == mtu_bytes();
  return bytes <= mtu_bytes() && (packet.opcode.position != Position::kLast || bytes > 0);
}

bool ResponderModel::NeedsReceive(const Packet& packet) const {
  if (packet.opcode.operation == Operation::kSend) return packet.opcode.StartsMessage();
  return packet.opcode.HasImmediate();
}

bool ResponderModel::Fits(const Packet& packet) const {
  const bool starts = packet.opcode.StartsMessage();
  const uint64_t room = starts ? RoomIn(receives_->queue.front().sges) : message_bytes_;
  return (starts ? 0 : received_bytes_) + packet.payload.size() <= room;
}

bool ResponderModel::IsWritePermitted(const Packet& packet) const {
  const bool starts = packet.opcode.StartsMessage();
  const Reth& reth = starts ? packet.reth : write_;
  const uint64_t before = starts ? 0 : received_bytes_;
  const uint64_t after = before + packet.payload.size();
  if (reth.dma_length > kLongestMessage) return false;
  if (packet.opcode.EndsMessage() ? after != reth.dma_length : after >= reth.dma_length) {
    return false;
  }
  // The first packet is checked for the whole range, a later one for its own bytes.
  const uint64_t length = starts ? reth.dma_length : packet.payload.size();
  return length == 0 || Remote(remote_pd_, reth.rkey, reth.virtual_address + before, length,
                               A::kRemoteWrite) != nullptr;
}

bool ResponderModel::IsReadPermitted(const Reth& reth) const {
  return Allows(A::kRemoteRead) &&
         (reth.dma_length == 0 || Remote(remote_pd_, reth.rkey, reth.virtual_address,
                                         reth.dma_length, A::kRemoteRead) != nullptr);
}

bool ResponderModel::IsAtomicPermitted(const AtomicEth& atomic) const {
  const uint8_t* target =
      Remote(remote_pd_, atomic.rkey, atomic.virtual_address, 8, A::kRemoteAtomic);
  return target != nullptr && atomic.virtual_address % 8 == 0 &&
         reinterpret_cast<uintptr_t>(target) % 8 == 0;
}

bool ResponderModel::IsAtomicWritePermitted(const Packet& packet) const {
  const Reth& reth = packet.reth;
  if (packet.payload.size() != 8 || reth.dma_length != 8) return false;
  const uint8_t* target = Remote(remote_pd_, reth.rkey, reth.virtual_address, 8, A::kRemoteWrite);
  return target != nullptr && reth.virtual_address % 8 == 0 &&
         reinterpret_cast<uintptr_t>(target) % 8 == 0;
}

bool ResponderModel::IsFlushPermitted(const Packet& packet) const {
  const Reth& reth = packet.reth;
  if (reth.dma_length > kLongestMessage) return false;
  switch (static_cast<int>(packet.feth.selectivity)) {
    case 0:
      return Remote(remote_pd_, reth.rkey, reth.virtual_address, reth.dma_length,
                    A::kFlushGlobal) != nullptr;
    case 1:
      return memory_.Permits(remote_pd_, qp_.qpn(), reth.rkey, A::kFlushGlobal);
    default:
      return false;
  }
}

uint32_t ResponderModel::ReadsOutstanding() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      executed_, [](const Executed& e) { return e.is_original && !e.answered; }));
}

}  // namespace uroce::transport
