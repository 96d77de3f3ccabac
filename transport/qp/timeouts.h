#pragma once

#include <cstdint>
#include <optional>

#include "transport/time.h"

namespace uroce::transport {

inline constexpr uint8_t kMaxTimeoutCode = 31;
inline constexpr uint8_t kMaxRnrTimerCode = 31;
inline constexpr uint8_t kMaxRetryCount = 7;
inline constexpr uint8_t kRnrRetryForEver = 7;

// The local ACK timeout: 4.096 us * 2^code; nullopt for code 0, which means wait for ever
// (IBA C9-140). `code` is 0 .. 31.
inline std::optional<Duration> AckTimeout(uint8_t code) {
  if (code == 0) return std::nullopt;
  return Duration{int64_t{4'096} << (code & kMaxTimeoutCode)};
}

// How long a requester waits after an RNR NAK with this timer code, 0 .. 31 (IBA 9.7.5.2.8).
Duration RnrDelay(uint8_t code);

}  // namespace uroce::transport
