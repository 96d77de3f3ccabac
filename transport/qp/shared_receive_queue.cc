#include "transport/qp/shared_receive_queue.h"

#include <algorithm>

#include "transport/limits.h"

namespace uroce::transport {

SharedReceiveQueue::SharedReceiveQueue(const SrqInitAttributes& init, EventQueue& events)
    : EventSource(init.context),
      pd_(init.pd),
      xrc_domain_(init.xrc_domain),
      completion_queue_(init.completion_queue),
      events_(events),
      requests_(init.max_work_requests, init.max_sges),
      limit_(init.limit) {}

Status SharedReceiveQueue::SetLimit(uint32_t limit) {
  if (limit > capacity()) return Status::kInvalidArgument;
  limit_ = limit;
  return Status::kOk;
}

Status SharedReceiveQueue::Resize(uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxSrqWorkRequests) return Status::kInvalidArgument;
  ReceiveQueue room(capacity, max_sges());
  return Resize(room);
}

Status SharedReceiveQueue::Resize(ReceiveQueue& room) {
  const uint32_t capacity = room.capacity();
  if (capacity == 0 || capacity > kMaxSrqWorkRequests || capacity < requests_.size() ||
      capacity < limit_) {
    return Status::kInvalidArgument;
  }
  requests_.MoveTo(room);
  return Status::kOk;
}

ReceiveQueue::Entry SharedReceiveQueue::Take(std::span<ScatterGatherEntry> sges) {
  const ReceiveQueue::Entry& front = requests_.Front();
  std::copy(front.sges.begin(), front.sges.end(), sges.begin());
  const ReceiveQueue::Entry taken = {front.wr_id, sges.first(front.sges.size())};
  requests_.PopFront();
  if (requests_.size() < limit_) {  // IBA 11.6.3.1 SRQ_LIMIT_REACHED
    limit_ = 0;
    events_.Raise(*this, EventType::kSrqLimitReached);
  }
  return taken;
}

}  // namespace uroce::transport
