#include "transport/qp/receive_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace uroce::transport {

ReceiveQueue::ReceiveQueue(uint32_t capacity, uint32_t max_sges)
    : capacity_(capacity),
      max_sges_(max_sges),
      mask_(std::bit_ceil(std::max(capacity, 1u)) - 1),
      entries_(MakeZeroedArray<Entry>(mask_ + 1u)),
      sges_(MakeZeroedArray<ScatterGatherEntry>(size_t{mask_ + 1u} * max_sges)) {}

Status ReceiveQueue::Post(const ReceiveWorkRequest& request) {
  if (request.sges.size() > max_sges_) return Status::kInvalidArgument;
  if (posted_ - consumed_ >= capacity_) return Status::kNoMemory;
  const uint32_t slot = posted_ & mask_;
  ScatterGatherEntry* sges = &sges_[size_t{slot} * max_sges_];
  std::copy(request.sges.begin(), request.sges.end(), sges);
  entries_[slot] = {request.wr_id, {sges, request.sges.size()}};
  ++posted_;
  return Status::kOk;
}

void ReceiveQueue::MoveTo(ReceiveQueue& room) {
  for (; !empty(); PopFront()) {
    // Cannot fail: `room` has room for the requests and for lists as long.
    static_cast<void>(room.Post({Front().wr_id, Front().sges}));
  }
  std::swap(*this, room);
}

}  // namespace uroce::transport
