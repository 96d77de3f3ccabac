// GCC 12 warns of its own intrinsics, which use uninitialised operands on purpose (GCC PR 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <immintrin.h>

#include "transport/wire/crc32_inputs.h"
#include "transport/wire/crc32_kernels.h"
#include "transport/wire/crc32_polynomial.h"
#include "transport/wire/crc32_reduce.h"

// Folding with four 128-bit carry-less multiplications an instruction (Intel since Ice Lake, AMD
// since Zen 4). An accumulator is 64 bytes: four blocks of 16 that are folded side by side.
#define UROCE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq,pclmul,sse4.1")))

namespace uroce::transport {
namespace {

constexpr size_t kBlock = 64;

// The mask of the first `bytes` < 64 bytes of a block.
constexpr uint64_t FirstBytes(size_t bytes) { return (uint64_t{1} << bytes) - 1; }

UROCE_AVX512 inline bool Block(const ReadInput& input, size_t at, __m512i& block) {
  block = _mm512_loadu_si512(input.source + at);
  return true;
}

UROCE_AVX512 inline bool Block(const CopyInput& input, size_t at, __m512i& block) {
  using Bytes = const uint8_t[kBlock];
  asm volatile goto(UROCE_GUARDED("vmovdqu64 %1, %0")
                    : "=v"(block)
                    : "m"(reinterpret_cast<Bytes&>(input.source[at]))
                    :
                    : gone);
  _mm512_storeu_si512(input.destination + at, block);
  return true;
gone:
  return false;
}

UROCE_AVX512 inline bool Block(const MaskedInput& input, size_t at, __m512i& block) {
  block = _mm512_loadu_si512(input.source + at);
  if (input.IsMasked(at)) block = _mm512_or_si512(block, _mm512_loadu_si512(input.mask + at));
  return true;
}

// The last `bytes` < 64 bytes of a message; the rest of the block is zero, and memory beyond is not
// touched.
UROCE_AVX512 inline bool LastBlock(const ReadInput& input, size_t at, size_t bytes,
                                   __m512i& block) {
  block = _mm512_maskz_loadu_epi8(FirstBytes(bytes), input.source + at);
  return true;
}

UROCE_AVX512 inline bool LastBlock(const CopyInput& input, size_t at, size_t bytes,
                                   __m512i& block) {
  const __mmask64 mask = FirstBytes(bytes);
  using Bytes = const uint8_t[kBlock];
  asm volatile goto(UROCE_GUARDED("vmovdqu8 %1, %0%{%2%}%{z%}")
                    : "=v"(block)
                    : "m"(reinterpret_cast<Bytes&>(input.source[at])), "Yk"(mask)
                    :
                    : gone);
  _mm512_mask_storeu_epi8(input.destination + at, mask, block);
  return true;
gone:
  return false;
}

UROCE_AVX512 inline bool LastBlock(const MaskedInput& input, size_t at, size_t bytes,
                                   __m512i& block) {
  const __mmask64 mask = FirstBytes(bytes);
  block = _mm512_maskz_loadu_epi8(mask, input.source + at);
  if (input.IsMasked(at)) {
    block = _mm512_or_si512(block, _mm512_maskz_loadu_epi8(mask, input.mask + at));
  }
  return true;
}

template <int kBits>
UROCE_AVX512 inline __m512i Fold(__m512i accumulator, __m512i next) {
  constexpr Crc32Fold kFold = Crc32FoldBy(kBits);
  const __m512i constants = _mm512_broadcast_i32x4(_mm_set_epi64x(kFold.high, kFold.low));
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(accumulator, constants, 0x00),
                                   _mm512_clmulepi64_epi128(accumulator, constants, 0x11), next,
                                   kXorOfThree);
}

// Folds the block at `at` into the accumulator.
template <int kBits, class Input>
UROCE_AVX512 inline bool FoldIn(__m512i& accumulator, Input input, size_t at) {
  __m512i block;
  if (!Block(input, at, block)) return false;
  accumulator = Fold<kBits>(accumulator, block);
  return true;
}

// Byte i of the result is i + shift; the permutations below look at its low bits only.
UROCE_AVX512 inline __m512i Indices(size_t shift) {
  alignas(64) static constexpr uint8_t kIota[kBlock] = {
      0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
      22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
      44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
  return _mm512_add_epi8(_mm512_load_si512(kIota), _mm512_set1_epi8(static_cast<char>(shift)));
}

// Moves the first `bytes` < 64 bytes of a block, whose others are zero, to its end: zeros before a
// message do not change a CRC that starts from zero.
UROCE_AVX512 inline __m512i AlignToEnd(__m512i block, size_t bytes) {
  return _mm512_permutexvar_epi8(Indices(bytes), block);
}

// Appends the first `bytes` < 64 bytes of `tail` to what `accumulator` holds. Of the 64 + bytes
// bytes the last 64 become a block of their own, and those before are aligned to its front.
UROCE_AVX512 inline __m512i AppendTail(__m512i accumulator, __m512i tail, size_t bytes) {
  const __m512i indices = Indices(bytes);
  const __m512i last = _mm512_permutex2var_epi8(accumulator, indices, tail);
  const __mmask64 at_end = ~FirstBytes(kBlock - bytes);
  const __m512i before = _mm512_maskz_permutexvar_epi8(at_end, indices, accumulator);
  return Fold<512>(before, last);
}

UROCE_AVX512 inline uint32_t Finish(__m512i accumulator) {
  constexpr Crc32Fold k384 = Crc32FoldBy(384);
  constexpr Crc32Fold k256 = Crc32FoldBy(256);
  constexpr Crc32Fold k128 = Crc32FoldBy(128);
  const __m512i constants =
      _mm512_set_epi64(0, 0, k128.high, k128.low, k256.high, k256.low, k384.high, k384.low);
  const __m512i folded = _mm512_xor_si512(_mm512_clmulepi64_epi128(accumulator, constants, 0x00),
                                          _mm512_clmulepi64_epi128(accumulator, constants, 0x11));
  const __m128i low =
      _mm_xor_si128(_mm512_castsi512_si128(folded), _mm512_extracti32x4_epi32(folded, 1));
  const __m128i high = _mm_xor_si128(_mm512_extracti32x4_epi32(folded, 2),
                                     _mm512_extracti32x4_epi32(accumulator, 3));
  return Crc32Reduce(_mm_xor_si128(low, high));
}

template <class Input>
UROCE_AVX512 inline bool Run(uint32_t& state, Input input, size_t length) {
  // A CRC that starts from a nonzero register is that of a message with the register added to its
  // first four bytes.
  if (length < sizeof state) return RunCrc32Bytes(state, input, 0, length);
  const __m512i initial = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i x;
  if (length < kBlock) {
    if (!LastBlock(input, 0, length, x)) return false;
    state = Finish(AlignToEnd(_mm512_xor_si512(x, initial), length));
    return true;
  }

  if (!Block(input, 0, x)) return false;
  x = _mm512_xor_si512(x, initial);
  size_t at = kBlock;
  if (length >= 8 * kBlock) {
    // Four accumulators hide the latency of the multiplication.
    __m512i x1, x2, x3;
    if (!Block(input, 1 * kBlock, x1)) return false;
    if (!Block(input, 2 * kBlock, x2)) return false;
    if (!Block(input, 3 * kBlock, x3)) return false;
    for (at = 4 * kBlock; length - at >= 4 * kBlock; at += 4 * kBlock) {
      if (!FoldIn<2048>(x, input, at)) return false;
      if (!FoldIn<2048>(x1, input, at + 1 * kBlock)) return false;
      if (!FoldIn<2048>(x2, input, at + 2 * kBlock)) return false;
      if (!FoldIn<2048>(x3, input, at + 3 * kBlock)) return false;
    }
    x = Fold<512>(Fold<512>(Fold<512>(x, x1), x2), x3);
  }
  for (; length - at >= kBlock; at += kBlock) {
    if (!FoldIn<512>(x, input, at)) return false;
  }
  if (at < length) {
    __m512i next;
    if (!LastBlock(input, at, length - at, next)) return false;
    x = AppendTail(x, next, length - at);
  }
  state = Finish(x);
  return true;
}

}  // namespace

const Crc32Kernel* Avx512Crc32Kernel() {
  static constexpr Crc32Kernel kKernel = MakeCrc32Kernel(
      "avx512",
      [](uint32_t& state, auto input, size_t length) { return Run(state, input, length); });
  __builtin_cpu_init();
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512vl") &&
                         __builtin_cpu_supports("avx512vbmi") &&
                         __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul");
  return supported ? &kKernel : nullptr;
}

}  // namespace uroce::transport
