#include "dpdk_nic/engine/engine_clock.h"

#include <cpuid.h>

namespace uroce::nic {
namespace {

constexpr int64_t kSynchronizationIntervalNs = 1'000'000;

// 0.5 to 8 GHz: no time stamp counter that we know has another rate.
constexpr uint64_t kMinNsPerTick = (uint64_t{1} << 32) / 8;
constexpr uint64_t kMaxNsPerTick = (uint64_t{1} << 32) * 2;

// Reading both clocks takes some hundred ticks; more means that we were interrupted in between.
constexpr uint64_t kUninterruptedTicks = 2'000;

bool HasInvariantCounter() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kInvariantTsc = 1u << 8;
  return __get_cpuid(0x8000'0007, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}

}  // namespace

EngineClock::EngineClock(transport::Time (*real_clock)())
    : real_clock_(real_clock), counter_is_steady_(HasInvariantCounter()) {}

transport::Time EngineClock::Synchronize() {
  const uint64_t before = __rdtsc();
  const int64_t now_ns = real_clock_().ns;
  const uint64_t ticks = __rdtsc();
  const bool interrupted = ticks - before > kUninterruptedTicks;
  last_ns_ = std::max(last_ns_, now_ns);
  if (!counter_is_steady_ || interrupted) return {last_ns_};

  const int64_t elapsed_ns = now_ns - synchronized_ns_;
  const bool first = synchronized_ns_ == 0;
  if (!first && elapsed_ns < kSynchronizationIntervalNs / 2) return {last_ns_};
  if (!first) {
    const auto rate = static_cast<uint64_t>((static_cast<unsigned __int128>(elapsed_ns) << 32) /
                                            (ticks - synchronized_ticks_));
    const bool sensible = rate >= kMinNsPerTick && rate <= kMaxNsPerTick;
    ns_per_tick_ = sensible ? rate : 0;
    valid_ticks_ = sensible ? (static_cast<uint64_t>(kSynchronizationIntervalNs) << 32) / rate : 0;
  }
  synchronized_ticks_ = ticks;
  synchronized_ns_ = now_ns;
  return {last_ns_};
}

}  // namespace uroce::nic
