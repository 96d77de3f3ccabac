#pragma once

#include <sys/types.h>

#include "tests/system/verbs/device.h"

namespace agent {

// As a shell has it: 128 and the signal if one ended the process. Throws std::runtime_error.
int ExitStatusOf(pid_t child);

// Forks. The child opens the device anew, connects to a connection that the parent makes on
// `parents_device`, and writes to it. Returns the child's exit status: 0 if everything it wrote has
// arrived as it was. Throws std::runtime_error.
int ExchangeWithChild(const system_test::Device& parents_device);

}  // namespace agent
