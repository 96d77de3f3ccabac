#include <bit>
#include <cstring>

#include "transport/wire/crc32_kernels.h"
#include "transport/wire/crc32_polynomial.h"

// Slicing-by-8: eight table look-ups, independent of each other, take eight bytes at a time.
namespace uroce::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "words are taken apart low byte first");

uint32_t EightBytes(uint32_t state, uint64_t bytes) {
  bytes ^= state;
  uint32_t next = 0;
  for (size_t i = 0; i < 8; ++i) next ^= kCrc32Tables[7 - i][(bytes >> (8 * i)) & 0xff];
  return next;
}

template <bool kCopy>
uint32_t Run(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  for (; length >= 8; length -= 8, source += 8) {
    uint64_t bytes;
    std::memcpy(&bytes, source, 8);
    state = EightBytes(state, bytes);
    if constexpr (kCopy) {
      std::memcpy(destination, &bytes, 8);
      destination += 8;
    }
  }
  for (; length > 0; --length) {
    const uint8_t byte = *source++;
    state = Crc32Byte(state, byte);
    if constexpr (kCopy) *destination++ = byte;
  }
  return state;
}

uint32_t Update(uint32_t state, const uint8_t* data, size_t length) {
  return Run<false>(state, nullptr, data, length);
}

}  // namespace

const Crc32Kernel& PortableCrc32Kernel() {
  static constexpr Crc32Kernel kKernel{"portable", Update, Run<true>};
  return kKernel;
}

}  // namespace uroce::transport
