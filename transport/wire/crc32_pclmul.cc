#include <immintrin.h>

#include <cstring>

#include "transport/wire/crc32_kernels.h"
#include "transport/wire/crc32_polynomial.h"
#include "transport/wire/crc32_reduce.h"

// Folding with the 128-bit carry-less multiplication that every x86-64 processor since 2010 has.
#define UROCE_PCLMUL __attribute__((target("pclmul,sse4.1")))

namespace uroce::transport {
namespace {

constexpr size_t kBlock = 16;

UROCE_PCLMUL inline __m128i Load(const uint8_t* bytes) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
}

UROCE_PCLMUL inline void Store(__m128i block, uint8_t* bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes), block);
}

// Loads a block and, if copying, stores it.
template <bool kCopy>
UROCE_PCLMUL inline __m128i Take(uint8_t* destination, const uint8_t* source) {
  const __m128i block = Load(source);
  if constexpr (kCopy) Store(block, destination);
  return block;
}

template <int kBits>
UROCE_PCLMUL inline __m128i Fold(__m128i accumulator, __m128i next) {
  constexpr Crc32Fold kFold = Crc32FoldBy(kBits);
  const __m128i constants = _mm_set_epi64x(kFold.high, kFold.low);
  const __m128i low = _mm_clmulepi64_si128(accumulator, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(accumulator, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

template <bool kCopy>
uint32_t RunBytes(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  for (size_t i = 0; i < length; ++i) {
    const uint8_t byte = source[i];
    state = Crc32Byte(state, byte);
    if constexpr (kCopy) destination[i] = byte;
  }
  return state;
}

// Appends the last `length` < 16 bytes to what `accumulator` holds. The 16 + length bytes are laid
// out with zeros before them, which do not change a CRC, to make two blocks.
template <bool kCopy>
UROCE_PCLMUL __m128i AppendTail(__m128i accumulator, uint8_t* destination, const uint8_t* source,
                                size_t length) {
  uint8_t blocks[2 * kBlock] = {};
  uint8_t* tail = blocks + 2 * kBlock - length;
  Store(accumulator, tail - kBlock);
  std::memcpy(tail, source, length);
  if constexpr (kCopy) std::memcpy(destination, tail, length);
  return Fold<128>(Load(blocks), Load(blocks + kBlock));
}

template <bool kCopy>
UROCE_PCLMUL uint32_t Run(uint32_t state, uint8_t* destination, const uint8_t* source,
                          size_t length) {
  if (length < kBlock) return RunBytes<kCopy>(state, destination, source, length);

  const uint8_t* const end = source + length;
  const auto step = [&](size_t bytes) {
    source += bytes;
    if constexpr (kCopy) destination += bytes;
  };
  const auto left = [&] { return static_cast<size_t>(end - source); };

  // Feeding a register that is not zero is adding it to the first four bytes.
  __m128i x = _mm_xor_si128(Take<kCopy>(destination, source),
                            _mm_cvtsi32_si128(static_cast<int>(state)));
  step(kBlock);
  if (left() >= 7 * kBlock) {
    // Four accumulators hide the latency of the multiplication.
    __m128i x1 = Take<kCopy>(destination, source);
    __m128i x2 = Take<kCopy>(destination + 16, source + 16);
    __m128i x3 = Take<kCopy>(destination + 32, source + 32);
    step(3 * kBlock);
    for (; left() >= 4 * kBlock; step(4 * kBlock)) {
      x = Fold<512>(x, Take<kCopy>(destination, source));
      x1 = Fold<512>(x1, Take<kCopy>(destination + 16, source + 16));
      x2 = Fold<512>(x2, Take<kCopy>(destination + 32, source + 32));
      x3 = Fold<512>(x3, Take<kCopy>(destination + 48, source + 48));
    }
    x = Fold<128>(Fold<128>(Fold<128>(x, x1), x2), x3);
  }
  for (; left() >= kBlock; step(kBlock)) x = Fold<128>(x, Take<kCopy>(destination, source));
  if (left() != 0) x = AppendTail<kCopy>(x, destination, source, left());
  return Crc32Reduce(x);
}

uint32_t Update(uint32_t state, const uint8_t* data, size_t length) {
  return Run<false>(state, nullptr, data, length);
}

}  // namespace

const Crc32Kernel* PclmulCrc32Kernel() {
  static constexpr Crc32Kernel kKernel{"pclmul", Update, Run<true>};
  __builtin_cpu_init();
  const bool supported = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return supported ? &kKernel : nullptr;
}

}  // namespace uroce::transport
