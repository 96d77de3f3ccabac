#pragma once

#include <immintrin.h>

#include <cstdint>

#include "transport/wire/crc32_polynomial.h"

namespace uroce::transport {

// The CRC register after the 16 bytes of `accumulator`, the last bytes of the message with
// everything before folded in: 128 bits to 64, to 32 by Barrett's reduction.
__attribute__((target("pclmul,sse4.1"), always_inline)) inline uint32_t Crc32Reduce(
    __m128i accumulator) {
  const __m128i fold_64 = _mm_set_epi64x(Crc32Power(128 - 32), 0);
  const __m128i fold_32 = _mm_set_epi64x(0, Crc32Power(64));
  const __m128i barrett = _mm_set_epi64x(kCrc32ReflectedMu, kCrc32ReflectedP);
  const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);

  __m128i x = _mm_xor_si128(_mm_srli_si128(accumulator, 8),
                            _mm_clmulepi64_si128(accumulator, fold_64, 0x10));
  x = _mm_xor_si128(_mm_srli_si128(x, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(x, low_words), fold_32, 0x00));
  __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low_words), barrett, 0x10);
  quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, low_words), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, quotient), 1));
}

}  // namespace uroce::transport
