// Prints the cache-line round trip of this moment: "<nanoseconds> near|far|one core|one cpu".

#include <cstdio>

#include "tools/bench_tools/cache_line.h"

int main() {
  const double round_trip_ns = uroce::bench::CacheLineRoundTripNs();
  std::printf("%.0f %s\n", round_trip_ns, uroce::bench::ClassifyRoundTrip(round_trip_ns));
}
