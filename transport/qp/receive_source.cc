#include "transport/qp/receive_source.h"

#include "transport/limits.h"

namespace uroce::transport {

namespace {

// Room for the list of a request of any shared queue that the queue pair may use.
std::unique_ptr<ScatterGatherEntry[]> RoomForTaken(const QpInitAttributes& init) {
  const bool is_xrc = init.type == QpType::kXrcReceive;
  if (!is_xrc && init.srq == nullptr) return nullptr;
  return std::make_unique<ScatterGatherEntry[]>(is_xrc ? kMaxSges : init.srq->max_sges());
}

}  // namespace

ReceiveSource::ReceiveSource(const QpInitAttributes& init, ReceiveQueue own)
    : own_pd_(init.pd),
      own_(std::move(own)),
      is_shared_(init.srq != nullptr || init.type == QpType::kXrcReceive),
      shared_(init.srq),
      taken_sges_(RoomForTaken(init)) {}

Status ReceiveSource::Post(const ReceiveWorkRequest& request) {
  return is_shared() ? Status::kInvalidArgument : own_.Post(request);
}

void ReceiveSource::Clear() {
  own_.Clear();
  in_use_ = false;
}

void ReceiveSource::Take() {
  if (is_shared()) taken_ = shared_->Take({taken_sges_.get(), shared_->max_sges()});
  in_use_ = true;
}

void ReceiveSource::Finish() {
  if (!is_shared()) own_.PopFront();
  in_use_ = false;
}

}  // namespace uroce::transport
