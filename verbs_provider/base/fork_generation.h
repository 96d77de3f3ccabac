#pragma once

#include <atomic>
#include <cstdint>

namespace uroce::verbs {

// How many times fork() lies between this process and the one that loaded the library. Counted by
// pthread_atfork, because asking the kernel for the process id would cost more than posting a work
// request does.
inline std::atomic<uint32_t> fork_generation{0};

inline uint32_t CurrentForkGeneration() { return fork_generation.load(std::memory_order_relaxed); }

// Starts to count; called once, before any device is opened.
void CountForks();

}  // namespace uroce::verbs
