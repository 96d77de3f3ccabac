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
    words_with_ready_ |= Bit(index / 64);
  }
  void Remove(Route route, TransmitClient& client) { queues_[Index(route)].Remove(client); }

  bool IsEmpty(Route route) const { return queues_[Index(route)].empty(); }
  // The first route from `from` on, in the order of their numbers, that has clients; nullopt if
  // there is none up to the last.
  std::optional<Route> FirstReady(Route from);

  size_t BuildFrame(Time now, Route route, std::span<uint8_t> out) {
    return queues_[Index(route)].BuildFrame(now, out);
  }

 private:
  static constexpr size_t Index(Route route) { return static_cast<size_t>(route); }
  static constexpr uint64_t Bit(size_t index) { return uint64_t{1} << index % 64; }

  // The first set bit of ready_ from `index` on.
  std::optional<size_t> FirstBit(size_t index) const;
  void ClearBit(size_t index);

  std::array<TransmitQueue, kRoutes> queues_;
  // A bit for each queue: clear if it is empty. Cleared only when somebody looks. One bit more than
  // there are queues, which stays clear, so that "behind the last" may be asked for.
  static constexpr size_t kWords = (kRoutes + 1 + 63) / 64;
  static_assert(kWords <= 64);
  std::array<uint64_t, kWords> ready_{};
  uint64_t words_with_ready_ = 0;  // a bit for each word of ready_: clear if it is 0
};

}  // namespace uroce::transport
