#pragma once

#include <cstdint>

namespace uroce::transport {

// The congestion controls of connections to other hosts.
enum class Congestion : uint8_t {
  kNone,   // a window of kMaxPacketsInFlight, no pacing
  kModel,  // rate_model.h
};

}  // namespace uroce::transport
