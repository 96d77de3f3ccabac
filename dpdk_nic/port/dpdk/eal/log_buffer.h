#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "dpdk_nic/base/mutex.h"
#include "dpdk_nic/base/thread_annotations.h"

namespace uroce::nic {

// The last lines of DPDK's log. DPDK explains in its log what its error codes hide, and a library
// inside an application must not print: so the lines wait here until an error sentence
// wants them. Thread-safe.
class LogBuffer {
 public:
  static constexpr size_t kMaxLines = 64;
  static constexpr size_t kMaxLineBytes = 256;  // longer lines are cut

  // Takes any piece of the log; a line counts when its newline arrives.
  void Append(std::string_view text);

  // Forgets everything: what is logged from here on belongs to the next operation.
  void Clear();

  // The newest `count` lines, oldest first, joined by "; ", without the "FUNCTION(): " that DPDK
  // drivers put in front. Empty if nothing was logged.
  std::string LastLines(size_t count) const;

 private:
  void FinishLine() UROCE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::string partial_ UROCE_GUARDED_BY(mutex_);
  std::deque<std::string> lines_ UROCE_GUARDED_BY(mutex_);
};

}  // namespace uroce::nic
