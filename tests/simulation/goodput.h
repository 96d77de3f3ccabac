#pragma once

#include <string>

namespace uroce::transport::simulation {

// How much one reliable connection moves over a virtual line of 100 Gbit/s, by loss, message size
// and round trip, as a table for people. The same on every machine: time is virtual, and chance
// comes from fixed seeds. So every change of behaviour under loss shows in it.
std::string GoodputTable();

}  // namespace uroce::transport::simulation
