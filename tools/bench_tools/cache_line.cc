#include "tools/bench_tools/cache_line.h"

#include <emmintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tools/bench_tools/cpus.h"

namespace uroce::bench {
namespace {

constexpr int kRoundTripsPerBatch = 2000;
constexpr int kBatches = 21;
constexpr int kQuartile = kBatches / 4;
// Between the three kinds of figure that were observed: 27 ns, 60 to 130 and 210 to 440.
constexpr double kNearNs = 45;
constexpr double kFarNs = 170;

struct alignas(64) Line {
  std::atomic<int> value{0};
};

// Answers every odd value with the next even one.
void Echo(Line* line, int cpu, int last) {
  PinTo(cpu);
  for (int expected = 1; expected < last; expected += 2) {
    while (line->value.load(std::memory_order_acquire) != expected) _mm_pause();
    line->value.store(expected + 1, std::memory_order_release);
  }
}

}  // namespace

double CacheLineRoundTripNs() {
  const std::vector<int> cpus = AllowedCpus();
  if (cpus.size() < 2) return 0;
  using Clock = std::chrono::steady_clock;
  Line line;
  std::thread echo(Echo, &line, cpus[1], 2 * kRoundTripsPerBatch * kBatches);
  std::array<double, kBatches> batches{};
  // A thread of its own, so that the caller keeps its affinity.
  std::thread probe([&] {
    PinTo(cpus[0]);
    int value = 0;
    for (double& batch : batches) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < kRoundTripsPerBatch; ++i) {
        line.value.store(++value, std::memory_order_release);
        ++value;
        while (line.value.load(std::memory_order_acquire) != value) _mm_pause();
      }
      batch = std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
              kRoundTripsPerBatch;
    }
  });
  probe.join();
  echo.join();
  std::nth_element(batches.begin(), batches.begin() + kQuartile, batches.end());
  return batches[kQuartile];
}

const char* ClassifyRoundTrip(double round_trip_ns) {
  if (round_trip_ns == 0) return "one cpu";
  if (round_trip_ns < kNearNs) return "one core";
  return round_trip_ns < kFarNs ? "near" : "far";
}

}  // namespace uroce::bench
