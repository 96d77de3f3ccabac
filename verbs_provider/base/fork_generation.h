#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::verbs {

// Number of forks between the process that loaded the library and this one. pthread_atfork counts
// them, because asking the kernel for the process id would cost more than posting a work request.
inline std::atomic<uint32_t> fork_generation{0};

inline uint32_t CurrentForkGeneration() { return fork_generation.load(std::memory_order_relaxed); }

// Starts counting; called once, before any device is opened.
void CountForks();

}  // namespace uroce::verbs
