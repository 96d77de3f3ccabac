#include "transport/congestion/congestion_control.h"

#include "transport/congestion/rate_model.h"

namespace uroce::transport {

std::unique_ptr<CongestionControl> MakeCongestionControl(Congestion kind, uint32_t seed) {
  switch (kind) {
    case Congestion::kNone:
      return nullptr;
    case Congestion::kModel:
      return std::make_unique<RateModel>(seed);
  }
  return nullptr;
}

}  // namespace uroce::transport
