#pragma once

#include <functional>

namespace uroce::nic {

// Runs `task` on DPDK's interrupt thread and waits for it. For drivers that tear down on the
// caller's thread what their interrupt handler may be tearing down at the same moment.
void RunOnInterruptThread(const std::function<void()>& task);

}  // namespace uroce::nic
