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

UROCE_PCLMUL inline bool Block(const ReadInput& input, size_t at, __m128i& block) {
  block = Load(input.source + at);
  return true;
}

UROCE_PCLMUL inline bool Block(const CopyInput& input, size_t at, __m128i& block) {
  using Bytes = const uint8_t[kBlock];
  asm volatile goto(UROCE_GUARDED("movups %1, %0")
                    : "=x"(block)
                    : "m"(reinterpret_cast<Bytes&>(input.source[at]))
                    :
                    : gone);
  Store(block, input.destination + at);
  return true;
gone:
  return false;
}

UROCE_PCLMUL inline bool Block(const MaskedInput& input, size_t at, __m128i& block) {
  block = Load(input.source + at);
  if (input.IsMasked(at)) block = _mm_or_si128(block, Load(input.mask + at));
  return true;
}

template <int kBits>
UROCE_PCLMUL inline __m128i Fold(__m128i accumulator, __m128i next) {
  constexpr Crc32Fold kFold = Crc32FoldBy(kBits);
  const __m128i constants = _mm_set_epi64x(kFold.high, kFold.low);
  const __m128i low = _mm_clmulepi64_si128(accumulator, constants, 0x00);
  const __m128i high = _mm_clmulepi64_si128(accumulator, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Folds the block at `at` into the accumulator.
template <int kBits, class Input>
UROCE_PCLMUL inline bool FoldIn(__m128i& accumulator, Input input, size_t at) {
  __m128i block;
  if (!Block(input, at, block)) return false;
  accumulator = Fold<kBits>(accumulator, block);
  return true;
}

// Appends the bytes [at, end), fewer than a block, to what `accumulator` holds. The 16 bytes of the
// accumulator and these are laid out as two blocks, with zeros in front, which do not change a CRC.
template <class Input>
UROCE_PCLMUL bool AppendTail(__m128i& accumulator, Input input, size_t at, size_t end) {
  uint8_t blocks[2 * kBlock] = {};
  uint8_t* tail = blocks + 2 * kBlock - (end - at);
  Store(accumulator, tail - kBlock);
  for (; at < end; ++at) {
    if (!input.Byte(at, *tail++)) return false;
  }
  accumulator = Fold<128>(Load(blocks), Load(blocks + kBlock));
  return true;
}

template <class Input>
UROCE_PCLMUL inline bool Run(uint32_t& state, Input input, size_t length) {
  if (length < kBlock) return RunCrc32Bytes(state, input, 0, length);

  __m128i x;
  if (!Block(input, 0, x)) return false;
  // A CRC that starts from a nonzero register is that of a message with the register added to its
  // first four bytes.
  x = _mm_xor_si128(x, _mm_cvtsi32_si128(static_cast<int>(state)));
  size_t at = kBlock;
  if (length >= 8 * kBlock) {
    // Four accumulators hide the latency of the multiplication.
    __m128i x1, x2, x3;
    if (!Block(input, 1 * kBlock, x1)) return false;
    if (!Block(input, 2 * kBlock, x2)) return false;
    if (!Block(input, 3 * kBlock, x3)) return false;
    for (at = 4 * kBlock; length - at >= 4 * kBlock; at += 4 * kBlock) {
      if (!FoldIn<512>(x, input, at)) return false;
      if (!FoldIn<512>(x1, input, at + 1 * kBlock)) return false;
      if (!FoldIn<512>(x2, input, at + 2 * kBlock)) return false;
      if (!FoldIn<512>(x3, input, at + 3 * kBlock)) return false;
    }
    x = Fold<128>(Fold<128>(Fold<128>(x, x1), x2), x3);
  }
  for (; length - at >= kBlock; at += kBlock) {
    if (!FoldIn<128>(x, input, at)) return false;
  }
  if (at < length && !AppendTail(x, input, at, length)) return false;
  state = Crc32Reduce(x);
  return true;
}

}  // namespace

const Crc32Kernel* PclmulCrc32Kernel() {
  static constexpr Crc32Kernel kKernel = MakeCrc32Kernel(
      "pclmul",
      [](uint32_t& state, auto input, size_t length) { return Run(state, input, length); });
  __builtin_cpu_init();
  const bool supported = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  return supported ? &kKernel : nullptr;
}

}  // namespace uroce::transport
