#include "transport/qp/receive_source.h"

namespace uroce::transport {

ReceiveSource::ReceiveSource(const QpInitAttributes& init, ReceiveQueue own)
    : own_pd_(init.pd),
      own_(std::move(own)),
      shared_(init.srq),
      taken_sges_(shared_ == nullptr
                      ? nullptr
                      : std::make_unique<ScatterGatherEntry[]>(shared_->max_sges())) {}

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
