#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// A contiguous piece of a packet's payload.
struct PayloadPiece {
  const uint8_t* data = nullptr;
  size_t length = 0;
};

}  // namespace uroce::transport
