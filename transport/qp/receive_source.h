#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "transport/ids.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/shared_receive_queue.h"
#include "transport/qp_attributes.h"
#include "transport/status.h"
#include "transport/work_request.h"

namespace uroce::transport {

// The source of a queue pair's receive requests: its own receive queue or a shared one; an XRC
// target's shared one may change from message to message. At most one request is in use, by the
// message that is being received.
class ReceiveSource {
 public:
  // `own` is the queue pair's own queue, not used if there is a shared one.
  ReceiveSource(const QpInitAttributes& init, ReceiveQueue own);

  // Hands out the own queue, to be freed elsewhere; the source cannot be used any more.
  ReceiveQueue TakeOwn() { return std::move(own_); }

  // kInvalidArgument with a shared queue: its requests are posted to that queue itself.
  Status Post(const ReceiveWorkRequest& request);
  // Forgets the requests of our own queue and the one in use.
  void Clear();

  // XRC target: sets the shared queue of the next message, or none. No request is in use.
  void Choose(SharedReceiveQueue* shared) { shared_ = shared; }
  // The shared queue is about to be destroyed: forgets it and the request taken out of it.
  void Leave() {
    shared_ = nullptr;
    in_use_ = false;
  }

  bool is_shared() const { return is_shared_; }
  SharedReceiveQueue* shared() const { return shared_; }
  // The protection domain of the memory that requests name.
  PdId pd() const { return shared_ != nullptr ? shared_->pd() : own_pd_; }
  // Requests of our own queue that have not completed.
  uint32_t count() const { return own_.size(); }

  // Whether there is a request for another message.
  bool empty() const { return shared_ != nullptr ? shared_->empty() : own_.empty(); }
  // The one that Take will give; not empty().
  const ReceiveQueue::Entry& Next() const {
    return shared_ != nullptr ? shared_->Front() : own_.Front();
  }

  // Puts the next request into use. None is in use, and the source is not empty().
  void Take();
  bool in_use() const { return in_use_; }
  const ReceiveQueue::Entry& current() const { return is_shared() ? taken_ : own_.Front(); }
  // The request in use completed.
  void Finish();
  // The message was dropped: the request in use waits for the next one. Not if is_shared().
  void PutBack() { in_use_ = false; }

 private:
  const PdId own_pd_;
  ReceiveQueue own_;  // the request in use stays at its front
  const bool is_shared_;
  SharedReceiveQueue* shared_;  // nullptr: our own, or an XRC target without one at present
  ReceiveQueue::Entry taken_;   // copied out of the shared queue
  std::unique_ptr<ScatterGatherEntry[]> taken_sges_;
  bool in_use_ = false;
};

}  // namespace uroce::transport
