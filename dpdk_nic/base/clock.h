#pragma once

#include <time.h>

#include "transport/time.h"

namespace uroce::nic {

// The engine's time line: CLOCK_MONOTONIC, which is read without a system call (vDSO).
inline transport::Time Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {now.tv_sec * 1'000'000'000 + now.tv_nsec};
}

}  // namespace uroce::nic
