#pragma once

#include <algorithm>
#include <cstdint>

#include "transport/time.h"

namespace uroce::transport::cm {

// The exponent of every time in a CM message: 4.096 us * 2^code, code 0 .. 31.
constexpr Duration DurationOf(uint8_t code) { return {int64_t{4'096} << (code & 31)}; }

// The local ACK timeout for a path, from its round trip and the peer's delay, as an exponent: the
// longer of the two, and twice as long if the other is not below half of it.
constexpr uint8_t AckTimeoutCode(uint8_t ack_delay, uint8_t packet_life_time) {
  const int round_trip = packet_life_time + 1;
  const int longer = std::max<int>(round_trip, ack_delay);
  const int shorter = std::min<int>(round_trip, ack_delay);
  return static_cast<uint8_t>(std::min(31, longer + (shorter >= longer - 1 ? 1 : 0)));
}

}  // namespace uroce::transport::cm
