#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// What a thread that polls may do next when there was nothing to do.
struct SleepPlan {
  enum class Kind : uint8_t {
    kNone,  // there is work: do not sleep
    kNap,   // the port takes no frame now, or cannot wake us: look again soon
    kSleep  // until a descriptor is readable, the thread is woken or `until` has come
  } kind;
  transport::Time until;
};

}  // namespace uroce::nic
