#pragma once

#include "transport/time.h"

namespace uroce::nic {

// How the threads that move frames wait for more, in microseconds of a machine where waking a
// sleeper takes 20.

// How long to look for more work before going to sleep: a little more than a wake-up costs both
// sides together.
inline constexpr transport::Duration kSpin = transport::Microseconds(50);

// Where nothing can wake them they look again after naps, which double from the shortest to the
// longest while there is nothing to do: an idle thread then makes a thousand passes a second, about
// 2% of a processor.
inline constexpr transport::Duration kShortestNap = transport::Microseconds(20);
inline constexpr transport::Duration kLongestNap = transport::Milliseconds(1);

}  // namespace uroce::nic
