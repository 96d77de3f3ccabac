#pragma once

namespace uroce::verbs::testing {

// Restarts this program with the virtual kernel preloaded and the device in a fabric of its own;
// returns if that was done before. Call it first in main(). `argv` ends with a null pointer.
void RunOverUroce(char** argv);

}  // namespace uroce::verbs::testing
