#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>

#include "dpdk_nic/base/unique_fd.h"

namespace uroce::nic {

// While it lives, a call of this thread that would make a file longer than RLIMIT_FSIZE allows
// fails with EFBIG, and does not end the process with SIGXFSZ.
class FileSizeSignalHold {
 public:
  FileSizeSignalHold();
  ~FileSizeSignalHold();
  FileSizeSignalHold(const FileSizeSignalHold&) = delete;
  FileSizeSignalHold& operator=(const FileSizeSignalHold&) = delete;

 private:
  sigset_t blocked_before_;
  bool was_pending_;
};

// Runs `grow`, which makes a file in memory `bytes` long and returns 0 or an errno value.
// RLIMIT_FSIZE (setrlimit(2)) counts for such files, too, although batch systems mean files on disk
// by it: as far as the hard limit allows, it is raised meanwhile. Returns what `grow` returned;
// EFBIG if the limit is too low.
int GrowMemoryFile(uint64_t bytes, const std::function<int()>& grow);

// A sealable file in memory of `bytes` zero bytes, which take no memory before they are touched.
// Without a descriptor on failure, with errno set.
UniqueFd MakeMemoryFile(const char* name, uint64_t bytes);

// Why memory that processes share cannot be had, and what to do, for errno value `error`.
std::string WhyNoSharedMemory(int error);

}  // namespace uroce::nic
