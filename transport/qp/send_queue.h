#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/completion.h"
#include "transport/ids.h"
#include "transport/limits.h"
#include "transport/memory/sge_cursor.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/status.h"
#include "transport/work_request.h"
#include "transport/zeroed_array.h"

namespace uroce::transport {

// The fields that only some send work requests use; the others leave them alone.
struct SendDetails : SendOperands {
  SgeCursor sges;                          // the data, if it is a list
  const AddressVector* address = nullptr;  // where a datagram goes
  // Why a request failed before it was sent.
  CompletionStatus failure = CompletionStatus::kSuccess;
  VendorError failure_reason = VendorError::kNone;
};

// The fields of a send work request that are read most often: eight bytes.
struct alignas(8) SendWqeState : SendOperation {
  enum class Data : uint8_t { kList, kOnePiece, kInline };

  Data data = Data::kList;
  // A SEND or WRITE without fence and immediate data, whose data is one piece of at least a byte.
  bool is_one_piece = false;
  bool started = false;  // first transmitted or, if it is a local operation, carried out
  // The first packet was sent without a credit for the request (IBA 9.7.7.2.5).
  bool probes : 1 = false;
  // It cannot be carried out: it completes in error when those before it have completed.
  bool failed : 1 = false;
  // No request of its kind can be carried out: it fails when it is begun. It has no data and no
  // address.
  bool is_impossible : 1 = false;
  // Of a READ that was started: the data is asked for in pieces of 2^n packets.
  uint8_t read_piece_log2 : 5 = 0;
};
static_assert(sizeof(SendWqeState) == 8);

// A send work request, from posting to completion. It is one cache line, and nearly all messages
// are sent and completed with it alone.
struct alignas(64) SendWqe : SendWqeState {
  uint64_t wr_id = 0;
  uint64_t remote_address = 0;
  uint64_t address = 0;  // of the data, if that is one piece or inline
  SendDetails* details = nullptr;
  uint32_t length = 0;  // of the message in bytes
  LKey lkey;            // of one piece
  RKey rkey;
  // Set when the request is started.
  Psn first_psn;
  uint32_t psn_count = 0;  // 0 for a local operation; for a READ that of the response
  uint32_t ssn = 0;        // sequence number of its last message: the MSN when that is carried out

  // The first packet goes out, or has gone.
  void Start(Psn first, uint32_t psns) {
    started = true;
    first_psn = first;
    psn_count = psns;
  }
  Psn end_psn() const { return first_psn + psn_count; }
  // Counted up from first_psn: a message may take half of all PSNs.
  uint32_t IndexOf(Psn psn) const { return (psn.value() - first_psn.value()) & Psn::kMask; }
  bool Contains(Psn psn) const { return IndexOf(psn) < psn_count; }
  // Messages to the responder: a READ is one a piece. Valid once the request was started.
  uint32_t message_count() const {
    if (IsLocal(opcode)) return 0;
    if (opcode != SendOpcode::kRdmaRead) [[likely]]
      return 1;
    return (psn_count + read_piece() - 1) >> read_piece_log2;
  }
  void SplitRead(uint8_t piece_log2) { read_piece_log2 = piece_log2 & 31; }
  uint32_t read_piece() const { return 1u << read_piece_log2; }
  // The PSNs of the piece that `psn` is in, from begin on and before end. Without pieces it is
  // alone.
  Psn PieceBegin(Psn psn) const { return psn - IndexOf(psn) % read_piece(); }
  Psn PieceEnd(Psn psn) const {
    const uint32_t begin = IndexOf(psn) & ~(read_piece() - 1);
    return first_psn + std::min(begin + read_piece(), psn_count);
  }
  // How many pieces contain packets from `begin` on and before `end`, both counted from first_psn.
  uint32_t PiecesBetween(uint32_t begin, uint32_t end) const {
    return begin >= end ? 0 : ((end - 1) >> read_piece_log2) - (begin >> read_piece_log2) + 1;
  }
  bool IsLocalOrFailed() const { return failed || IsLocal(opcode); }
  const uint8_t* inline_bytes() const { return reinterpret_cast<const uint8_t*>(address); }
  // Calls use(SgeCursor&) with a cursor over data that is not inline.
  template <class Use>
  auto UseData(Use use) {
    if (data == Data::kList) return use(details->sges);
    const ScatterGatherEntry piece = {address, length, lkey};
    SgeCursor cursor(std::span(&piece, 1));
    return use(cursor);
  }
};

// The send work requests of a queue pair, addressed by the order they were posted in: `front()` is
// the number of the oldest, `back()` that of the next to be posted. All memory is taken at
// construction.
class SendQueue {
 public:
  SendQueue(QpType type, const QpCapabilities& capabilities);

  // kNoMemory when full; kBadAddress for inline data in memory that cannot be read;
  // kInvalidArgument for more SGEs or inline bytes than agreed at creation, for a message of more
  // than kMaxMessageBytes, for an opcode that no service has or that cannot be inline, for atomics
  // of another size than 8 bytes, for a FLUSH with undefined placement or selectivity or a range
  // over kMaxMessageBytes, for a datagram without an address, and for a raw packet that ends within
  // its Ethernet header. A FLUSH has no data: its SGEs are ignored. An opcode that only other
  // services have, or a foreign address, is taken and fails later, as on NICs.
  Status Post(const SendWorkRequest& request);
  // The same for a plain request, with fewer instructions. Not for XRC.
  Status PostPlain(const PlainSendRequest& request);
  // All of `requests`, or none of them and the status of the first that Post refuses.
  Status PostAll(std::span<const SendWorkRequest> requests);

  uint32_t front() const { return front_; }
  uint32_t back() const { return back_; }
  bool empty() const { return front_ == back_; }
  SendWqe& operator[](uint32_t number) { return ring_[number & mask_]; }
  const SendWqe& operator[](uint32_t number) const { return ring_[number & mask_]; }
  void PopFront() { ++front_; }
  // Pops all before `number`, which is not beyond back().
  void PopUpTo(uint32_t number) { front_ = number; }
  void Clear() { front_ = back_; }

 private:
  bool IsImpossible(const SendWorkRequest& request) const;
  Status PostImpossible(const SendWorkRequest& request);
  Status Check(const SendWorkRequest& request, uint64_t length) const;
  bool HasRoom() const { return back_ - front_ < capacity_; }
  bool CopyInline(const SendWorkRequest& request, uint32_t slot);
  void CopyDetails(const SendWorkRequest& request, uint32_t slot);

  // The fields that every request uses come first.
  std::unique_ptr<SendWqe[]> ring_;
  uint32_t mask_;       // ring size - 1
  uint32_t front_ = 0;  // both only count up, and wrap at 2^32
  uint32_t back_ = 0;
  uint32_t capacity_;
  uint32_t max_sges_;
  uint32_t offered_;  // one bit a SendOpcode
  uint32_t max_inline_bytes_;
  uint32_t min_message_bytes_;
  bool all_have_details_;                    // datagrams and requests of XRC
  ZeroedArray<SendDetails> details_;         // one a ring slot
  ZeroedArray<ScatterGatherEntry> sges_;     // max_sges_ a ring slot
  std::unique_ptr<uint8_t[]> inline_bytes_;  // max_inline_bytes_ a ring slot
  ZeroedArray<AddressVector> addresses_;     // one a ring slot, if these are datagrams
};

}  // namespace uroce::transport
