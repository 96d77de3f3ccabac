// A library that has the device from its constructor to its destructor.
#pragma once

namespace uroce::verbs::testing {

// Sends messages over the library's connection and prints `moment` and "works" or "fails".
void UseDevice(const char* moment);

}  // namespace uroce::verbs::testing
