#pragma once

#include <string>

namespace uroce::transport::simulation {

// A table for people: our connections on network paths with a bottleneck, by rate, round trip,
// queue, loss, reordering and competitors. Time is virtual and seeds are fixed, so it is the same
// on every machine. `is_long`: more cells, and longer runs.
std::string PathTable(bool is_long);

}  // namespace uroce::transport::simulation
