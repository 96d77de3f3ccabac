#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "verbs_provider/rdma_cm/id.h"

namespace uroce::verbs::rdma_cm {

// enum rdma_cm_event_type of <rdma/rdma_cma.h>, which cannot be included together with the kernel's
// header.
enum class UserEvent : uint32_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kAddressChange = 14,
  kTimewaitExit = 15,
};

// An event as GET_EVENT delivers it.
struct QueuedEvent {
  Id* id = nullptr;                 // counts the event; of a connect request, the listener
  Multicast* multicast = nullptr;   // counts the event as well
  std::unique_ptr<Id> new_id = {};  // of a connect request
  rdma_ucm_event_resp response{};
};

// An open /dev/infiniband/rdma_cm: a queue of events. The virtual kernel makes the descriptor
// readable: it holds one token for each event.
class Channel {
 public:
  // Told that there are `delta` more events; fewer if `delta` is negative.
  using TokenSink = std::function<void(int delta)>;

  explicit Channel(TokenSink tokens) : tokens_(std::move(tokens)) {}

  bool empty() const { return events_.empty(); }
  QueuedEvent& front() { return events_.front(); }
  void Push(QueuedEvent event) {
    events_.push_back(std::move(event));
    tokens_(1);
  }
  // The caller has taken the token.
  void PopFront() { events_.pop_front(); }
  // Returns the token of the first event, which could not be delivered and stays in the queue.
  void ReturnToken() { tokens_(1); }

  // Removes the events for which `matches` is true, and returns them in their order.
  std::deque<QueuedEvent> Take(const std::function<bool(const QueuedEvent&)>& matches) {
    std::deque<QueuedEvent> taken;
    std::deque<QueuedEvent> kept;
    for (QueuedEvent& event : events_) (matches(event) ? taken : kept).push_back(std::move(event));
    events_ = std::move(kept);
    if (!taken.empty()) tokens_(-static_cast<int>(taken.size()));
    return taken;
  }

 private:
  const TokenSink tokens_;
  std::deque<QueuedEvent> events_;
};

}  // namespace uroce::verbs::rdma_cm
