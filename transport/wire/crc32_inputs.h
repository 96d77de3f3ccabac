#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "transport/guarded_access.h"
#include "transport/wire/crc32.h"
#include "transport/wire/crc32_kernels.h"
#include "transport/wire/crc32_polynomial.h"

// The inputs of a CRC, over which the kernels are templates: they read, copy or mask the bytes.
// Byte(at, byte) sets `byte` to byte `at` of the message; a kernel asks for each byte once. All
// functions that load return false if the memory is gone: only the source of a copy lies in memory
// of the application.
namespace uroce::transport {

struct ReadInput {
  const uint8_t* source;

  bool Byte(size_t at, uint8_t& byte) const {
    byte = source[at];
    return true;
  }
};

struct CopyInput {
  uint8_t* destination;
  const uint8_t* source;

  bool Byte(size_t at, uint8_t& byte) const {
    asm volatile goto(UROCE_GUARDED("movb %1, %0") : "=q"(byte) : "m"(source[at]) : : gone);
    destination[at] = byte;
    return true;
  gone:
    return false;
  }
};

struct MaskedInput {
  const uint8_t* source;
  const uint8_t* mask;  // kCrc32MaskBytes

  bool IsMasked(size_t at) const { return at < kCrc32MaskBytes; }
  bool Byte(size_t at, uint8_t& byte) const {
    byte = static_cast<uint8_t>(source[at] | (IsMasked(at) ? mask[at] : 0));
    return true;
  }
};

template <class Input>
bool RunCrc32Bytes(uint32_t& state, Input input, size_t begin, size_t end) {
  for (size_t at = begin; at < end; ++at) {
    uint8_t byte;
    if (!input.Byte(at, byte)) return false;
    state = Crc32Byte(state, byte);
  }
  return true;
}

// The kernel whose loop is `Run`, a lambda without captures: Run(state, input, length) takes each
// of the inputs above.
template <class Run>
constexpr Crc32Kernel MakeCrc32Kernel(std::string_view name, Run) {
  return {name,
          [](uint32_t state, const uint8_t* data, size_t length) {
            Run{}(state, ReadInput{data}, length);
            return state;
          },
          [](uint32_t& state, uint8_t* destination, const uint8_t* source, size_t length) {
            CheckGuardedRead(source, length);
            CheckGuardedWrite(destination, length);
            return Run{}(state, CopyInput{destination, source}, length);
          },
          [](uint32_t state, const uint8_t* data, size_t length, const Crc32Mask& mask) {
            Run{}(state, MaskedInput{data, mask.data()}, length);
            return state;
          }};
}

}  // namespace uroce::transport
