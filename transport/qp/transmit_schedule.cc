#include "transport/qp/transmit_schedule.h"

namespace uroce::transport {

std::optional<size_t> TransmitSchedule::FirstBit(size_t index) const {
  size_t word = index / 64;
  uint64_t candidates = ready_[word] & ~(Bit(index) - 1);
  if (candidates == 0) {
    const uint64_t later_words = words_with_ready_ & ~((Bit(word) << 1) - 1);
    if (later_words == 0) return std::nullopt;
    word = static_cast<size_t>(std::countr_zero(later_words));
    candidates = ready_[word];
  }
  return word * 64 + static_cast<size_t>(std::countr_zero(candidates));
}

void TransmitSchedule::ClearBit(size_t index) {
  uint64_t& word = ready_[index / 64];
  word &= ~Bit(index);
  if (word == 0) words_with_ready_ &= ~Bit(index / 64);
}

std::optional<Route> TransmitSchedule::FirstReady(Route from) {
  while (const auto index = FirstBit(Index(from))) {
    if (!queues_[*index].empty()) return static_cast<Route>(*index);
    ClearBit(*index);
  }
  return std::nullopt;
}

}  // namespace uroce::transport
