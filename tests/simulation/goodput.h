#pragma once

#include <string>

namespace uroce::transport::simulation {

// A table for people: goodput of one reliable connection over a virtual line of 100 Gbit/s, by
// loss, message size and round trip. Time is virtual and seeds are fixed, so it is the same on
// every machine, and any change of behaviour under loss shows.
std::string GoodputTable();

}  // namespace uroce::transport::simulation
