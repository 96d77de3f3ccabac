// Lists the cpus of a thread, and binds a thread to one of them.
#pragma once

#include <vector>

namespace uroce::bench {

// The cpus that the calling thread may run on, in ascending order.
std::vector<int> AllowedCpus();

// Binds the calling thread to one cpu. Throws std::system_error if it does not exist.
void PinTo(int cpu);

}  // namespace uroce::bench
