#include "transport/wire/crc32_shift.h"

#include <immintrin.h>

#include <array>

#include "transport/wire/crc32_polynomial.h"

namespace uroce::transport {
namespace {

// Polynomials are reflected: bit 31 is the constant term.
constexpr uint32_t kOne = 0x8000'0000;

constexpr uint32_t TimesX(uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kCrc32ReflectedPolynomial : 0);
}

// P has a constant term, so adding P makes a polynomial divisible by x if it is not.
constexpr uint32_t DividedByX(uint32_t value) {
  const bool divisible = (value & kOne) == 0;
  return divisible ? value << 1 : ((value ^ kCrc32ReflectedPolynomial) << 1 | 1);
}

static_assert(DividedByX(TimesX(0x1234'5679)) == 0x1234'5679);
static_assert(TimesX(DividedByX(0xffff'ffff)) == 0xffff'ffff);

// The factors of shifts by 0, 4, 8 ... bytes.
using Factors = std::array<uint32_t, kMaxCrc32ShiftBytes / 4 + 1>;

template <class Step>
Factors MakeFactors(Step step) {
  Factors factors{};
  uint32_t factor = kOne;
  for (uint32_t& entry : factors) {
    entry = factor;
    for (int bit = 0; bit < 32; ++bit) factor = step(factor);
  }
  return factors;
}

const Factors& Forward() {
  static const Factors factors = MakeFactors(TimesX);
  return factors;
}

const Factors& Backward() {
  static const Factors factors = MakeFactors(DividedByX);
  return factors;
}

uint32_t MultiplyPortable(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1, b = TimesX(b)) {
    if ((a & kOne) != 0) product ^= b;
  }
  return product;
}

// The register after four bytes of zero.
uint32_t AfterFourZeros(uint32_t state) {
  return kCrc32Tables[3][state & 0xff] ^ kCrc32Tables[2][state >> 8 & 0xff] ^
         kCrc32Tables[1][state >> 16 & 0xff] ^ kCrc32Tables[0][state >> 24];
}

// A product of two reflected 32-bit words has 63 bits; its high terms are in the low half.
__attribute__((target("pclmul,sse4.1"))) uint32_t MultiplyPclmul(uint32_t a, uint32_t b) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(a), _mm_cvtsi64_si128(b), 0x00);
  const uint64_t wide = static_cast<uint64_t>(_mm_cvtsi128_si64(product)) << 1;
  return static_cast<uint32_t>(wide >> 32) ^ AfterFourZeros(static_cast<uint32_t>(wide));
}

uint32_t Multiply(uint32_t a, uint32_t b) {
  static const bool has_pclmul =
      __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  return has_pclmul ? MultiplyPclmul(a, b) : MultiplyPortable(a, b);
}

}  // namespace

uint32_t AdvanceCrc32(uint32_t difference, size_t bytes) {
  return Multiply(difference, Forward()[bytes / 4]);
}

uint32_t RewindCrc32(uint32_t difference, size_t bytes) {
  return Multiply(difference, Backward()[bytes / 4]);
}

}  // namespace uroce::transport
