#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "transport/qp/transmit_queue.h"
#include "transport/route.h"

namespace uroce::transport {

// A TransmitQueue for each route, and the routes that have something to send.
class TransmitSchedule {
 public:
  void Add(Route route, TransmitClient& client) {
    const size_t index = Index(route);
    queues_[index].Add(client);
    ready_[index / 64] |= Bit(index);
    ready_words_ |= Bit(index / 64);
  }
  void Remove(Route route, TransmitClient& client) {
    queues_[Index(route)].Remove(client);
    NoteIfEmpty(route);
  }

  bool IsEmpty() const { return ready_words_ == 0; }
  bool IsEmpty(Route route) const { return queues_[Index(route)].empty(); }
  bool OwesReply(Route route) const { return queues_[Index(route)].OwesReply(); }
  // The first route from `from` on, in the order of their numbers, that has clients; nullopt if
  // there is none up to the last.
  std::optional<Route> FirstReady(Route from) const {
    const size_t index = Index(from);
    size_t word = index / 64;
    uint64_t candidates = ready_[word] & ~(Bit(index) - 1);
    if (candidates == 0) {
      const uint64_t later_words = ready_words_ & ~((Bit(word) << 1) - 1);
      if (later_words == 0) return std::nullopt;
      word = static_cast<size_t>(std::countr_zero(later_words));
      candidates = ready_[word];
    }
    return static_cast<Route>(word * 64 + static_cast<size_t>(std::countr_zero(candidates)));
  }

  size_t BuildFrame(Time now, Route route, const FrameRoom& out) {
    const size_t frame_bytes = queues_[Index(route)].BuildFrame(now, out);
    NoteIfEmpty(route);
    return frame_bytes;
  }

 private:
  static constexpr size_t Index(Route route) { return static_cast<size_t>(route); }
  static constexpr uint64_t Bit(size_t index) { return uint64_t{1} << index % 64; }

  void NoteIfEmpty(Route route) {
    if (!IsEmpty(route)) return;
    const size_t index = Index(route);
    uint64_t& word = ready_[index / 64];
    word &= ~Bit(index);
    if (word == 0) ready_words_ &= ~Bit(index / 64);
  }

  // One bit more than routes: FirstReady may be called with the route behind the last one.
  static constexpr size_t kWords = kRoutes / 64 + 1;
  static_assert(kWords < 64);

  std::array<TransmitQueue, kRoutes> queues_;
  std::array<uint64_t, kWords> ready_{};  // a bit for each queue: set if it has clients
  uint64_t ready_words_ = 0;              // a bit for each word of ready_: set if it is not 0
};

}  // namespace uroce::transport
