#include "transport/qp/xrc_queues.h"

#include "transport/qp/shared_receive_queue.h"

namespace uroce::transport {

Status XrcQueues::Add(SharedReceiveQueue& queue) {
  Srqn srqn{first_ + static_cast<uint32_t>(queues_.size())};
  if (queues_.size() < count_) {
    queues_.push_back(&queue);
  } else if (!free_.empty()) {
    srqn = free_.front();
    free_.pop_front();
    queues_[srqn.value - first_] = &queue;
  } else {
    return Status::kNoMemory;
  }
  queue.set_srqn(srqn);
  return Status::kOk;
}

void XrcQueues::Remove(SharedReceiveQueue& queue) {
  free_.push_back(queue.srqn());
  queues_[queue.srqn().value - first_] = nullptr;
  queue.set_srqn({});
}

SharedReceiveQueue* XrcQueues::Find(XrcDomainId domain, Srqn srqn) const {
  if (srqn.value < first_ || srqn.value - first_ >= queues_.size()) return nullptr;
  SharedReceiveQueue* const queue = queues_[srqn.value - first_];
  return queue != nullptr && queue->xrc_domain() == domain ? queue : nullptr;
}

}  // namespace uroce::transport
