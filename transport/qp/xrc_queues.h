#pragma once

#include <cstdint>
#include <deque>

#include "transport/ids.h"
#include "transport/status.h"

namespace uroce::transport {

class SharedReceiveQueue;

// The shared receive queues of XRC, by their numbers, which the XRCETH of a request names. Queues
// of all XRC domains are here; a request finds those of its own domain only.
class XrcQueues {
 public:
  // The numbers are `first` .. `first` + `count` - 1. Those of linked processes differ: they are in
  // the process's block of QPNs.
  XrcQueues(Srqn first, uint32_t count) : first_(first.value), count_(count) {}

  // Gives the queue its number. A freed number is used again as late as possible: packets for its
  // last queue may still be under way. kNoMemory: there are `count`.
  Status Add(SharedReceiveQueue& queue);
  void Remove(SharedReceiveQueue& queue);
  // nullptr if no queue of the domain has the number.
  SharedReceiveQueue* Find(XrcDomainId domain, Srqn srqn) const;

 private:
  const uint32_t first_;
  const uint32_t count_;
  std::deque<SharedReceiveQueue*> queues_;  // by number - first_; grows by small pieces
  std::deque<Srqn> free_;                   // freed numbers, the oldest first
};

}  // namespace uroce::transport
