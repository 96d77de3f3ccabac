#pragma once

#include <x86intrin.h>

#include <algorithm>
#include <cstdint>

#include "dpdk_nic/base/clock.h"
#include "transport/time.h"

namespace uroce::nic {

// CLOCK_MONOTONIC for a caller that asks millions of times a second: reads the processor's time
// stamp counter (8 ns instead of 25) and looks at the real clock once a millisecond, which also
// measures the counter's rate. Never goes back. Where the counter does not run at a constant rate,
// it is the real clock every time.
//
// Not thread-safe: to be used under the engine's lock.
class EngineClock {
 public:
  // `real_clock` is CLOCK_MONOTONIC, except in tests.
  explicit EngineClock(transport::Time (*real_clock)() = nic::Now);

  transport::Time Now() {
    const uint64_t ticks = __rdtsc() - synchronized_ticks_;
    // Also true for a counter that went back: the difference is huge then.
    if (ticks >= valid_ticks_) [[unlikely]]
      return Synchronize();
    const auto elapsed_ns = static_cast<int64_t>(ticks * ns_per_tick_ >> kFractionBits);
    last_ns_ = std::max(last_ns_, synchronized_ns_ + elapsed_ns);
    return {last_ns_};
  }

 private:
  // Fraction bits of ns_per_tick_. A millisecond is at most 2^23 ticks and a tick at most 2^7 ns:
  // the product fits in 64 bits.
  static constexpr int kFractionBits = 32;

  transport::Time Synchronize();

  transport::Time (*const real_clock_)();
  const bool counter_is_steady_;
  uint64_t synchronized_ticks_ = 0;
  int64_t synchronized_ns_ = 0;
  uint64_t valid_ticks_ = 0;  // how long after synchronized_ticks_ the rate is trusted
  uint64_t ns_per_tick_ = 0;  // fixed point
  int64_t last_ns_ = 0;
};

}  // namespace uroce::nic
