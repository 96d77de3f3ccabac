// The time a cache line needs from one cpu to another and back. Every figure that involves two
// cores depends on it, and it changes within seconds where a hypervisor moves virtual cpus.
#pragma once

namespace uroce::bench {

// One round trip in nanoseconds, between the first two cpus that this process may run on. 0 if
// there is only one. The lower quartile of several batches: a batch that was interrupted says
// nothing.
double CacheLineRoundTripNs();

// "near" (the two share a cache), "far" (they do not), "one core" (they are two hardware threads of
// one core: each is slow while the other works), or "one cpu" for 0.
const char* ClassifyRoundTrip(double round_trip_ns);

}  // namespace uroce::bench
