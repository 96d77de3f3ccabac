#pragma once

#include <cstdint>
#include <span>

#include "transport/events.h"
#include "transport/ids.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/receive_waiter.h"
#include "transport/status.h"
#include "transport/work_request.h"

namespace uroce::transport {

class CompletionQueue;

// struct ibv_srq_init_attr_ex. max_work_requests 1 .. kMaxSrqWorkRequests, max_sges 0 .. kMaxSges.
struct SrqInitAttributes {
  PdId pd;
  uint32_t max_work_requests = 0;
  uint32_t max_sges = 0;
  uint32_t limit = 0;
  // XRC: the domain whose targets may use the queue, and the completion queue of its requests.
  // Without XRC they complete in the receive_cq of the queue pair.
  XrcDomainId xrc_domain{};
  CompletionQueue* completion_queue = nullptr;
  void* context = nullptr;  // the caller's; comes back in events
};

// A receive queue that several queue pairs draw from (IBA 10.2.9): those that were created with it,
// or, of XRC, those whose requests name it. A request belongs to a queue pair from the first packet
// of the message that takes it.
class SharedReceiveQueue : public EventSource {
 public:
  SharedReceiveQueue(const SrqInitAttributes& init, EventQueue& events);

  // ibv_post_srq_recv of one request. kNoMemory when full, kInvalidArgument for too many SGEs.
  Status Post(const ReceiveWorkRequest& request) {
    const Status status = requests_.Post(request);
    if (status == Status::kOk && !waiters_.empty()) [[unlikely]]
      waiters_.TellFirst();
    return status;
  }
  // `waiter` is told once of a request that is posted from now on.
  void AddWaiter(ReceiveWaiter& waiter) { waiters_.Add(waiter); }

  // Raises kSrqLimitReached once, when fewer than `limit` requests are left; 0: never.
  // kInvalidArgument for more than the queue holds.
  Status SetLimit(uint32_t limit);
  // Posted requests stay. kInvalidArgument for a capacity below their number, below the limit, of
  // 0, or above kMaxSrqWorkRequests.
  Status Resize(uint32_t capacity);
  // The same with memory that was taken without the engine's lock: `room` is empty and has lists of
  // max_sges(). Afterwards it holds the old memory of this queue.
  Status Resize(ReceiveQueue& room);

  bool empty() const { return requests_.empty(); }
  const ReceiveQueue::Entry& Front() const { return requests_.Front(); }
  // The oldest request leaves the queue. Its SGEs are copied to `sges`, which has room for
  // max_sges(), and the entry that is returned refers to them.
  ReceiveQueue::Entry Take(std::span<ScatterGatherEntry> sges);

  PdId pd() const { return pd_; }
  bool is_xrc() const { return completion_queue_ != nullptr; }
  XrcDomainId xrc_domain() const { return xrc_domain_; }
  CompletionQueue* completion_queue() const { return completion_queue_; }
  // XRC: the number by which requests name the queue; XrcQueues sets it.
  Srqn srqn() const { return srqn_; }
  void set_srqn(Srqn srqn) { srqn_ = srqn; }
  uint32_t capacity() const { return requests_.capacity(); }
  uint32_t max_sges() const { return requests_.max_sges(); }
  uint32_t limit() const { return limit_; }

 private:
  const PdId pd_;
  const XrcDomainId xrc_domain_;
  CompletionQueue* const completion_queue_;
  Srqn srqn_;
  EventQueue& events_;
  ReceiveQueue requests_;
  uint32_t limit_;
  ReceiveWaiters waiters_;
};

}  // namespace uroce::transport
