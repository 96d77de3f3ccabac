#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/wire/crc32.h"
#include "transport/wire/crc32_polynomial.h"

// Where the bytes of a CRC come from and what happens to them on the way: the kernels are templates
// over these. Byte(at) is byte `at` of the message; a kernel asks for each byte once.
namespace uroce::transport {

struct ReadInput {
  const uint8_t* source;

  uint8_t Byte(size_t at) const { return source[at]; }
};

struct CopyInput {
  uint8_t* destination;
  const uint8_t* source;

  uint8_t Byte(size_t at) const {
    const uint8_t byte = source[at];
    destination[at] = byte;
    return byte;
  }
};

struct MaskedInput {
  const uint8_t* source;
  const uint8_t* mask;  // kCrc32MaskBytes

  bool IsMasked(size_t at) const { return at < kCrc32MaskBytes; }
  uint8_t Byte(size_t at) const {
    return static_cast<uint8_t>(source[at] | (IsMasked(at) ? mask[at] : 0));
  }
};

template <class Input>
uint32_t RunCrc32Bytes(uint32_t state, const Input& input, size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) state = Crc32Byte(state, input.Byte(at));
  return state;
}

}  // namespace uroce::transport
