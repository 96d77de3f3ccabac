#pragma once

#include <array>

#include "dpdk_nic/engine/drive_policy/progress_policy.h"
#include "transport/time.h"

namespace uroce::nic {

// How a polling thread that found nothing to do may sleep.
struct SleepPlan {
  using Kind = ProgressPolicy::Slept;
  Kind kind;
  transport::Time until;           // the sleep ends by then, whatever happens
  std::array<int, 2> fds{-1, -1};  // end the sleep when readable; -1: none
};

}  // namespace uroce::nic
