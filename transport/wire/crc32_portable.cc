#include <bit>
#include <cstring>

#include "transport/wire/crc32_inputs.h"
#include "transport/wire/crc32_kernels.h"
#include "transport/wire/crc32_polynomial.h"

// Slicing-by-8: eight table look-ups, independent of each other, take eight bytes at a time.
namespace uroce::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "words are taken apart low byte first");

bool Word(const ReadInput& input, size_t at, uint64_t& word) {
  std::memcpy(&word, input.source + at, sizeof word);
  return true;
}

bool Word(const CopyInput& input, size_t at, uint64_t& word) {
  using Bytes = const uint8_t[sizeof word];
  asm volatile goto(UROCE_GUARDED("movq %1, %0")
                    : "=r"(word)
                    : "m"(reinterpret_cast<Bytes&>(input.source[at]))
                    :
                    : gone);
  std::memcpy(input.destination + at, &word, sizeof word);
  return true;
gone:
  return false;
}

bool Word(const MaskedInput& input, size_t at, uint64_t& word) {
  std::memcpy(&word, input.source + at, sizeof word);
  if (!input.IsMasked(at)) return true;
  uint64_t mask;
  std::memcpy(&mask, input.mask + at, sizeof mask);
  word |= mask;
  return true;
}

uint32_t EightBytes(uint64_t bytes) {
  const auto& tables = kCrc32Tables;
  return tables[7][bytes & 0xff] ^ tables[6][(bytes >> 8) & 0xff] ^
         tables[5][(bytes >> 16) & 0xff] ^ tables[4][(bytes >> 24) & 0xff] ^
         tables[3][(bytes >> 32) & 0xff] ^ tables[2][(bytes >> 40) & 0xff] ^
         tables[1][(bytes >> 48) & 0xff] ^ tables[0][bytes >> 56];
}

template <class Input>
bool Run(uint32_t& state, Input input, size_t length) {
  size_t at = 0;
  for (; length - at >= 8; at += 8) {
    uint64_t word;
    if (!Word(input, at, word)) return false;
    state = EightBytes(word ^ state);
  }
  return RunCrc32Bytes(state, input, at, length);
}

}  // namespace

const Crc32Kernel& PortableCrc32Kernel() {
  static constexpr Crc32Kernel kKernel = MakeCrc32Kernel(
      "portable",
      [](uint32_t& state, auto input, size_t length) { return Run(state, input, length); });
  return kKernel;
}

}  // namespace uroce::transport
