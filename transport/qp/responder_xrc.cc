#include "transport/qp/responder.h"

namespace uroce::transport {
namespace {

// A domain that no memory is in: real ones are numbered from 0 on, and are fewer.
constexpr PdId kNoPd{0xffff'ffff};

}  // namespace

// Selects the queue that a request names, with its protection domain and completion queue. All
// packets of a message have to name the same queue: Validate refuses others. A duplicate may name
// any.
void Responder::ChooseQueue(Srqn srqn) {
  SharedReceiveQueue* const named = qp_.environment.xrc_queues.Find(qp_.init.xrc_domain, srqn);
  if (message_ == Message::kNone) {
    receives_.Choose(named);
    receive_cq_ = named == nullptr ? nullptr : named->completion_queue();
  }
  is_queue_known_ = named != nullptr && named == receives_.shared();
  remote_pd_ = named == nullptr ? kNoPd : named->pd();
}

void Responder::Leave(const SharedReceiveQueue& queue) {
  if (receives_.shared() != &queue) return;
  receives_.Leave();
  receive_cq_ = nullptr;
}

}  // namespace uroce::transport
