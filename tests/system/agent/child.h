#pragma once

#include <sys/types.h>

#include "tests/system/verbs/device.h"

namespace agent {

// Waits for the child. As a shell: 128 plus the signal that ended it. Throws std::runtime_error.
int ExitStatusOf(pid_t child);

// Forks. The child opens the device anew, connects to a connection that the parent makes on
// `parents_device`, and writes to it. Returns the child's exit status: 0 if every byte has arrived
// unchanged. Throws std::runtime_error.
int ExchangeWithChild(const system_test::Device& parents_device);

}  // namespace agent
