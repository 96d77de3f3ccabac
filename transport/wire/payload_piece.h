#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// A contiguous piece of a packet's payload. Without initialisers, because every packet makes an
// array of them.
struct PayloadPiece {
  const uint8_t* data;
  size_t length;
};

}  // namespace uroce::transport
