#pragma once

#include <functional>

#include "dpdk_nic/base/error_or.h"
#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"
#include "dpdk_nic/port/dpdk/eal/log_buffer.h"

namespace uroce::nic {

// DPDK's environment abstraction layer inside a process that was not written for it. It starts
// once, at the first use, and stays until the process ends (DPDK cannot start twice). It starts on
// a thread of its own with all signals blocked, and leaves the application's affinity, limits,
// descriptors, signal handlers, stdout, stderr and syslog as they are.
class Eal {
 public:
  // The options of the first start hold until the process ends.
  struct Options {
    bool hugepages = false;  // ordinary memory otherwise
    // Devices reach memory by physical addresses; by virtual ones otherwise. Needs hugepages.
    bool physical_addresses = false;
    // Of ordinary memory: address space, touched only as far as it is used. VFIO pins all of it.
    uint32_t memory_mib = 256;
  };

  // Returns the one instance. A start that failed is final: DPDK cannot try again in the same
  // process.
  static ErrorOr<Eal*> Start(const Options& options);

  // Runs `task` with all signals blocked, so that whatever thread a driver creates blocks them too.
  // One task at a time: devices are added and removed here. On the caller's thread, because a
  // device may be one of the caller's network namespace.
  void Run(const std::function<void()>& task);

  LogBuffer& log() { return log_; }

 private:
  enum class State { kNotStarted, kRunning, kFailed };

  Eal() = default;
  bool Initialize(const Options& options);

  Mutex mutex_;
  State state_ UROCE_GUARDED_BY(mutex_) = State::kNotStarted;
  LogBuffer log_;
};

}  // namespace uroce::nic
