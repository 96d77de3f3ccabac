#pragma once

#include <cstdint>
#include <span>

#include "transport/status.h"
#include "transport/work_request.h"
#include "transport/zeroed_array.h"

namespace uroce::transport {

// Receive work requests, oldest first. Memory is taken at construction only.
class ReceiveQueue {
 public:
  struct Entry {
    uint64_t wr_id = 0;
    std::span<const ScatterGatherEntry> sges;
  };

  ReceiveQueue(uint32_t capacity, uint32_t max_sges);

  // kNoMemory when full, kInvalidArgument for more entries than max_sges.
  Status Post(const ReceiveWorkRequest& request);

  uint32_t size() const { return posted_ - consumed_; }
  bool empty() const { return posted_ == consumed_; }
  uint32_t capacity() const { return capacity_; }
  uint32_t max_sges() const { return max_sges_; }
  // The oldest request; its SGE list stays in place until the request is popped or moved.
  const Entry& Front() const { return entries_[consumed_ & mask_]; }
  void PopFront() { ++consumed_; }
  void Clear() { consumed_ = posted_; }

  // Moves the requests to `room`, then swaps the two queues. `room` is empty, with lists of
  // max_sges() and room for at least size() requests.
  void MoveTo(ReceiveQueue& room);

 private:
  uint32_t capacity_;
  uint32_t max_sges_;
  uint32_t mask_;  // ring size - 1
  ZeroedArray<Entry> entries_;
  ZeroedArray<ScatterGatherEntry> sges_;  // max_sges_ a ring slot
  uint32_t posted_ = 0;                   // both only count up, and wrap at 2^32
  uint32_t consumed_ = 0;
};

}  // namespace uroce::transport
