#pragma once

#include <array>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// What a thread that polls may do next when there was nothing to do.
struct SleepPlan {
  enum class Kind : uint8_t {
    kNone,  // there is work: do not sleep
    kNap,   // the port takes no frame now, or cannot wake us: look again soon
    kSleep
  } kind;
  transport::Time until;           // then it ends, whatever happens
  std::array<int, 2> fds{-1, -1};  // that end it when they are readable; -1: none
};

}  // namespace uroce::nic
