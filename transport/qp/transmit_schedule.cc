#include "transport/qp/transmit_schedule.h"

namespace uroce::transport {

std::optional<Route> TransmitSchedule::FirstReady(Route from) {
  size_t index = Index(from);
  while (index < kRoutes) {
    uint64_t& word = ready_[index / 64];
    const uint64_t candidates = word & ~(Bit(index) - 1);
    if (candidates == 0) {
      index = (index / 64 + 1) * 64;
      continue;
    }
    index = index / 64 * 64 + static_cast<size_t>(std::countr_zero(candidates));
    if (!queues_[index].empty()) return static_cast<Route>(index);
    word &= ~Bit(index);
  }
  return std::nullopt;
}

}  // namespace uroce::transport
