#include "transport/qp/send_queue.h"

#include <algorithm>
#include <bit>

#include "transport/guarded_access.h"
#include "transport/limits.h"
#include "transport/qp/send_operations.h"
#include "transport/wire/ethernet.h"

namespace uroce::transport {
namespace {

constexpr uint64_t kAtomicBytes = 8;

// The opcodes of the services, one bit a SendOpcode.
constexpr uint32_t OfferedTo(Offer most) {
  return SendOpcodesWith([=](const SendOperationRow& row) { return row.offer <= most; });
}
constexpr uint32_t kReliable = OfferedTo(Offer::kReliable);
constexpr uint32_t kKnownOpcodes = kReliable;
constexpr uint32_t kWithOperands =
    SendOpcodesWith([](const SendOperationRow& row) { return row.has_operands; });

uint32_t Offered(QpType type) {
  switch (type) {
    case QpType::kUnreliableDatagram:
      return OfferedTo(Offer::kAll);
    case QpType::kUnreliableConnection:
      return OfferedTo(Offer::kConnections);
    case QpType::kRawPacket:
      return 1u << static_cast<uint32_t>(SendOpcode::kSend);
    case QpType::kXrcReceive:
      return 0;
    default:
      return kReliable;
  }
}

// Whether the packets of a request whose data is in one piece may be predicted.
bool MayBePredicted(const SendOperation& request) {
  return (request.opcode == SendOpcode::kRdmaWrite || request.opcode == SendOpcode::kSend) &&
         !request.fence;
}

// Placement and selectivity are defined, and one request may name so much memory (IBA C9-94).
bool IsValidFlush(const SendOperands& request) {
  constexpr uint8_t kKnown = Placement::kGlobal | Placement::kPersistent;
  return request.placement != 0 && (request.placement & ~kKnown) == 0 &&
         request.selectivity <= Selectivity::kRegion && request.flush_length <= kMaxMessageBytes;
}

}  // namespace

SendQueue::SendQueue(QpType type, const QpCapabilities& capabilities)
    : mask_(std::bit_ceil(std::max(capabilities.max_send_wr, 1u)) - 1),
      capacity_(capabilities.max_send_wr),
      max_sges_(capabilities.max_send_sge),
      offered_(Offered(type)),
      max_inline_bytes_(capabilities.max_inline_bytes),
      min_message_bytes_(type == QpType::kRawPacket ? EthernetHeader::kBytes : 0),
      all_have_details_(type == QpType::kUnreliableDatagram || type == QpType::kXrcSend),
      details_(MakeZeroedArray<SendDetails>(mask_ + 1u)),
      sges_(MakeZeroedArray<ScatterGatherEntry>(size_t{mask_ + 1u} * max_sges_)),
      inline_bytes_(new uint8_t[size_t{mask_ + 1u} * max_inline_bytes_]),
      addresses_(type == QpType::kUnreliableDatagram ? MakeZeroedArray<AddressVector>(mask_ + 1u)
                                                     : nullptr) {
  ring_ = std::make_unique<SendWqe[]>(mask_ + 1u);
  for (uint32_t slot = 0; slot <= mask_; ++slot) ring_[slot].details = &details_[slot];
}

// Whether an opcode is not offered (IBA 11.4.1.1) or an address foreign (IBA C10-10). NICs and
// rdma_rxe take both and complete them with a "local QP operation" error.
bool SendQueue::IsImpossible(const SendWorkRequest& request) const {
  const auto opcode = static_cast<uint32_t>(request.opcode);
  const bool is_others = (offered_ >> opcode & 1) == 0 && (kKnownOpcodes >> opcode & 1) != 0;
  return offered_ != 0 && (is_others || request.has_foreign_address);
}

Status SendQueue::PostImpossible(const SendWorkRequest& request) {
  if (!HasRoom()) return Status::kNoMemory;
  SendWqe& wqe = ring_[back_ & mask_];
  static_cast<SendWqeState&>(wqe) = {request};
  wqe.is_impossible = true;
  wqe.wr_id = request.wr_id;
  wqe.length = 0;
  wqe.psn_count = 0;
  wqe.details->sges = {};
  wqe.details->address = nullptr;
  ++back_;
  return Status::kOk;
}

Status SendQueue::Check(const SendWorkRequest& request, uint64_t length) const {
  if ((offered_ >> static_cast<uint32_t>(request.opcode) & 1) == 0) return Status::kInvalidArgument;
  if (addresses_ != nullptr && request.address == nullptr) return Status::kInvalidArgument;
  if (length > kMaxMessageBytes) return Status::kInvalidArgument;
  if (length < min_message_bytes_) return Status::kInvalidArgument;
  const bool is_of_eight_bytes =
      IsAtomic(request.opcode) || request.opcode == SendOpcode::kAtomicWrite;
  if (is_of_eight_bytes && length != kAtomicBytes) return Status::kInvalidArgument;
  if (request.opcode == SendOpcode::kFlush && !IsValidFlush(request)) {
    return Status::kInvalidArgument;
  }
  if (request.inline_data) {
    const bool carries_data = IsSend(request.opcode) || IsWrite(request.opcode) ||
                              request.opcode == SendOpcode::kAtomicWrite;
    if (!carries_data || length > max_inline_bytes_) return Status::kInvalidArgument;
  } else if (request.sges.size() > max_sges_) {
    return Status::kInvalidArgument;
  }
  return HasRoom() ? Status::kOk : Status::kNoMemory;
}

Status SendQueue::Post(const SendWorkRequest& request) {
  if (request.opcode > SendOpcode::kAtomicWrite) return Status::kInvalidArgument;
  if (IsImpossible(request)) [[unlikely]]
    return PostImpossible(request);
  const bool has_no_data = IsLocal(request.opcode) || request.opcode == SendOpcode::kFlush;
  const uint64_t length = has_no_data ? 0 : TotalBytes(request.sges);
  if (const Status status = Check(request, length); status != Status::kOk) return status;

  const uint32_t slot = back_ & mask_;
  SendWqe& wqe = ring_[slot];
  static_cast<SendWqeState&>(wqe) = {request};
  wqe.wr_id = request.wr_id;
  wqe.remote_address = request.remote_address;
  wqe.rkey = request.rkey;
  wqe.length = static_cast<uint32_t>(length);
  wqe.psn_count = 0;
  if (request.inline_data) {
    if (!CopyInline(request, slot)) return Status::kBadAddress;
    wqe.data = SendWqe::Data::kInline;
    wqe.is_one_piece = length != 0 && MayBePredicted(request);
  } else if (request.sges.size() == 1 && length != 0) {
    wqe.data = SendWqe::Data::kOnePiece;
    wqe.address = request.sges.front().address;
    wqe.lkey = request.sges.front().lkey;
    wqe.is_one_piece = MayBePredicted(request);
  } else {
    ScatterGatherEntry* const sges = sges_.get() + size_t{slot} * max_sges_;
    std::copy(request.sges.begin(), request.sges.end(), sges);
    wqe.data = SendWqe::Data::kList;
    wqe.details->sges = SgeCursor({sges, request.sges.size()});
    wqe.is_one_piece = false;
  }
  const bool has_operands = (kWithOperands >> static_cast<uint32_t>(request.opcode) & 1) != 0;
  if (all_have_details_ || has_operands) CopyDetails(request, slot);
  ++back_;
  return Status::kOk;
}

Status SendQueue::PostPlain(const PlainSendRequest& request) {
  if (request.piece.length > kMaxMessageBytes || max_sges_ == 0) [[unlikely]]
    return Status::kInvalidArgument;
  if (back_ - front_ >= capacity_) [[unlikely]]
    return Status::kNoMemory;
  SendWqe& wqe = ring_[back_ & mask_];
  // One store: the cache line was last written one round of the ring ago.
  static_cast<SendWqeState&>(wqe) = {
      SendOperation{request.opcode, request.signaled, request.solicited, /*fence=*/false},
      SendWqeState::Data::kOnePiece,
      /*is_one_piece=*/true};
  wqe.wr_id = request.wr_id;
  wqe.remote_address = request.remote_address;
  wqe.address = request.piece.address;
  wqe.length = request.piece.length;
  wqe.lkey = request.piece.lkey;
  wqe.rkey = request.rkey;
  wqe.psn_count = 0;
  ++back_;
  return Status::kOk;
}

// False if data cannot be read.
bool SendQueue::CopyInline(const SendWorkRequest& request, uint32_t slot) {
  uint8_t* bytes = inline_bytes_.get() + size_t{slot} * max_inline_bytes_;
  ring_[slot].address = reinterpret_cast<uintptr_t>(bytes);
  for (const ScatterGatherEntry& sge : request.sges) {
    if (sge.length == 0) continue;
    if (!GuardedCopy(bytes, reinterpret_cast<const void*>(sge.address), sge.length)) return false;
    bytes += sge.length;
  }
  return true;
}

void SendQueue::CopyDetails(const SendWorkRequest& request, uint32_t slot) {
  SendDetails& details = details_[slot];
  static_cast<SendOperands&>(details) = request;
  if (addresses_ == nullptr) return;
  addresses_[slot] = *request.address;
  details.address = &addresses_[slot];
}

Status SendQueue::PostAll(std::span<const SendWorkRequest> requests) {
  const uint32_t back = back_;
  for (const SendWorkRequest& request : requests) {
    if (const Status status = Post(request); status != Status::kOk) {
      back_ = back;
      return status;
    }
  }
  return Status::kOk;
}

}  // namespace uroce::transport
