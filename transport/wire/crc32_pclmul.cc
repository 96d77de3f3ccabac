#include <immintrin.h>

#include "transport/wire/crc32_inputs.h"
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

UROCE_PCLMUL inline __m128i Block(const ReadInput& input, size_t at) {
  return Load(input.source + at);
}

UROCE_PCLMUL inline __m128i Block(const CopyInput& input, size_t at) {
  const __m128i block = Load(input.source + at);
  Store(block, input.destination + at);
  return block;
}

UROCE_PCLMUL inline __m128i Block(const MaskedInput& input, size_t at) {
  const __m128i block = Load(input.source + at);
  return input.IsMasked(at) ? _mm_or_si128(block, Load(input.mask + at)) : block;
}

template <int kBits>
UROCE_PCLMUL inline __m128i Fold(__m128i accumulator, __m128i next) {
  constexpr Crc32Fold kFold = Crc32FoldBy(kBits);
  const __m128i constants = _mm_set_epi64x(kFold.high, kFold.low);
  const __m128i low = _mm_clmulepi64_si128(accumulator, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(accumulator, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Appends the bytes [at, end), fewer than a block, to what `accumulator` holds. Together with its
// 16 bytes they are laid out with zeros before them, which do not change a CRC, to make two blocks.
template <class Input>
UROCE_PCLMUL __m128i AppendTail(__m128i accumulator, const Input& input, size_t at, size_t end) {
  uint8_t blocks[2 * kBlock] = {};
  uint8_t* tail = blocks + 2 * kBlock - (end - at);
  Store(accumulator, tail - kBlock);
  for (; at < end; ++at) *tail++ = input.Byte(at);
  return Fold<128>(Load(blocks), Load(blocks + kBlock));
}

template <class Input>
UROCE_PCLMUL uint32_t Run(uint32_t state, const Input& input, size_t length) {
  if (length < kBlock) return RunCrc32Bytes(state, input, 0, length);

  // Feeding a register that is not zero is adding it to the first four bytes.
  __m128i x = _mm_xor_si128(Block(input, 0), _mm_cvtsi32_si128(static_cast<int>(state)));
  size_t at = kBlock;
  if (length >= 8 * kBlock) {
    // Four accumulators hide the latency of the multiplication.
    __m128i x1 = Block(input, 1 * kBlock);
    __m128i x2 = Block(input, 2 * kBlock);
    __m128i x3 = Block(input, 3 * kBlock);
    for (at = 4 * kBlock; length - at >= 4 * kBlock; at += 4 * kBlock) {
      x = Fold<512>(x, Block(input, at));
      x1 = Fold<512>(x1, Block(input, at + 1 * kBlock));
      x2 = Fold<512>(x2, Block(input, at + 2 * kBlock));
      x3 = Fold<512>(x3, Block(input, at + 3 * kBlock));
    }
    x = Fold<128>(Fold<128>(Fold<128>(x, x1), x2), x3);
  }
  for (; length - at >= kBlock; at += kBlock) x = Fold<128>(x, Block(input, at));
  if (at < length) x = AppendTail(x, input, at, length);
  return Crc32Reduce(x);
}

uint32_t Update(uint32_t state, const uint8_t* data, size_t length) {
  return Run(state, ReadInput{data}, length);
}

uint32_t CopyAndUpdate(uint32_t state, uint8_t* destination, const uint8_t* source, size_t length) {
  return Run(state, CopyInput{destination, source}, length);
}

uint32_t UpdateMasked(uint32_t state, const uint8_t* data, size_t length, const Crc32Mask& mask) {
  return Run(state, MaskedInput{data, mask.data()}, length);
}

}  // namespace

const Crc32Kernel* PclmulCrc32Kernel() {
  static constexpr Crc32Kernel kKernel{"pclmul", Update, CopyAndUpdate, UpdateMasked};
  __builtin_cpu_init();
  const bool supported = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return supported ? &kKernel : nullptr;
}

}  // namespace uroce::transport
