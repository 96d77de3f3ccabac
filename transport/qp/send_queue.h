#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "transport/completion.h"
#include "transport/ids.h"
#include "transport/memory/sge_cursor.h"
#include "transport/psn.h"
#include "transport/qp_attributes.h"
#include "transport/status.h"
#include "transport/work_request.h"

namespace uroce::transport {

// A send work request that waits, is on its way, or waits for its response.
struct SendWqe : SendParameters {
  uint64_t length = 0;  // of the message in bytes
  SgeCursor sges;
  std::span<const ScatterGatherEntry> sge_list;
  const uint8_t* inline_bytes = nullptr;   // the message itself, if it was posted inline
  const AddressVector* address = nullptr;  // where a datagram goes
  // A SEND or WRITE that waits for nothing, has no immediate data, and whose data is in one piece:
  // inline_bytes or the first entry of sge_list.
  bool is_plain = false;

  // Set when the request is first transmitted (or, for a local operation, carried out).
  bool started = false;
  Psn first_psn;
  uint32_t psn_count = 0;      // 0 for a local operation; of the response for a READ
  uint32_t request_count = 0;  // messages to the responder: a very long READ is several; 0 if local
  uint32_t ssn = 0;  // sequence number of the last of them: the MSN when it is carried out
  // The first packet was sent without knowing of a receive request for it (IBA 9.7.7.2.5).
  bool probes = false;

  // A READ or atomic that was sent and not answered in full: it occupies one of max_rd_atomic.
  bool holds_read_credit = false;

  // The request can not be carried out. It completes so when those before it have completed.
  CompletionStatus failure = CompletionStatus::kSuccess;
  VendorError failure_reason = VendorError::kNone;

  // As it is when it was posted; where its data is, is still to be said.
  void Begin(const SendParameters& parameters, uint64_t bytes) {
    static_cast<SendParameters&>(*this) = parameters;
    length = bytes;
    started = probes = holds_read_credit = false;
    psn_count = request_count = 0;
    failure = CompletionStatus::kSuccess;
    failure_reason = VendorError::kNone;
  }
  // The first packet goes out, or has gone.
  void Start(Psn first, uint32_t psns, uint32_t requests, uint32_t last_ssn) {
    started = true;
    first_psn = first;
    psn_count = psns;
    request_count = requests;
    ssn = last_ssn;
  }
  Psn end_psn() const { return first_psn + psn_count; }
  // Counted up from first_psn: a message may take half of all PSNs.
  bool Contains(Psn psn) const {
    return ((psn.value() - first_psn.value()) & Psn::kMask) < psn_count;
  }
  bool failed() const { return failure != CompletionStatus::kSuccess; }
};

// The send work requests of a queue pair, addressed by the order they were posted in: `front()` is
// the number of the oldest, `back()` that of the next to be posted. All memory is taken at
// construction.
class SendQueue {
 public:
  SendQueue(QpType type, const QpCapabilities& capabilities);

  // kNoMemory when full; kBadAddress for inline data in memory that cannot be read;
  // kInvalidArgument for more SGEs or inline bytes than agreed at creation, for a message of more
  // than kMaxMessageBytes, for an opcode that the service does not have or that cannot be inline,
  // and for a datagram without an address.
  Status Post(const SendWorkRequest& request);
  // All of `requests`, or none of them and the status of the first that Post refuses.
  Status PostAll(std::span<const SendWorkRequest> requests);

  uint32_t front() const { return front_; }
  uint32_t back() const { return back_; }
  bool empty() const { return front_ == back_; }
  SendWqe& operator[](uint32_t number) { return ring_[number & mask_]; }
  const SendWqe& operator[](uint32_t number) const { return ring_[number & mask_]; }
  void PopFront() { ++front_; }
  void Clear() { front_ = back_; }

 private:
  Status Check(const SendWorkRequest& request, uint64_t length) const;

  uint32_t offered_;  // one bit a SendOpcode
  uint32_t capacity_;
  uint32_t max_sges_;
  uint32_t max_inline_bytes_;
  uint32_t mask_;  // ring size - 1
  std::unique_ptr<SendWqe[]> ring_;
  std::unique_ptr<ScatterGatherEntry[]> sges_;  // max_sges_ a ring slot
  std::unique_ptr<uint8_t[]> inline_bytes_;     // max_inline_bytes_ a ring slot
  std::unique_ptr<AddressVector[]> addresses_;  // one a ring slot, if these are datagrams
  uint32_t front_ = 0;                          // both count without end and wrap at 2^32
  uint32_t back_ = 0;
};

}  // namespace uroce::transport
