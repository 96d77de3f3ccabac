#pragma once

namespace uroce::verbs::testing {

// Restarts this program with the virtual kernel preloaded and the device on a link of its own,
// unless that was done before. Call it first thing in main(). `argv` ends with a null pointer.
void RunOverUroce(char** argv);

}  // namespace uroce::verbs::testing
