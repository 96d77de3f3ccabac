#pragma once

#include <array>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// How a polling thread that found nothing to do may sleep.
struct SleepPlan {
  enum class Kind : uint8_t {
    kNone,  // there is work: do not sleep
    kNap,   // the port is full or cannot wake the thread: poll again soon
    kSleep
  } kind;
  transport::Time until;           // the sleep ends by then, whatever happens
  std::array<int, 2> fds{-1, -1};  // end the sleep when readable; -1: none
};

}  // namespace uroce::nic
