#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The constants of the CRC-32 kernels, computed at compile time from the polynomial.
namespace uroce::transport {

inline constexpr uint32_t kCrc32ReflectedPolynomial = 0xedb8'8320;

// kCrc32Tables[0][b]: the register after byte b; [k][b]: after byte b and k zero bytes.
inline constexpr auto kCrc32Tables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kCrc32ReflectedPolynomial : 0);
    }
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}();

// The rest is for carry-less multiplication: "Fast CRC Computation for Generic Polynomials Using
// PCLMULQDQ Instruction", Intel 2009, in its bit-reflected form. There a 64-bit word is a
// polynomial whose bit 63 is the constant term, and a product comes out one bit short of the top;
// that is why the constants are shifted left by one.

constexpr uint32_t Reflect(uint32_t value) {
  uint32_t reflected = 0;
  for (int bit = 0; bit < 32; ++bit) reflected |= ((value >> bit) & 1) << (31 - bit);
  return reflected;
}

inline constexpr uint32_t kCrc32Polynomial = Reflect(kCrc32ReflectedPolynomial);

// x^power mod P, reflected and shifted. power >= 0.
constexpr uint64_t Crc32Power(int power) {
  uint32_t value = 1;
  for (int i = 0; i < power; ++i) value = (value << 1) ^ ((value >> 31) * kCrc32Polynomial);
  return uint64_t{Reflect(value)} << 1;
}

// The factors of the two halves of a 128-bit accumulator that move it `bits` ahead.
struct Crc32Fold {
  uint64_t low;
  uint64_t high;
};
constexpr Crc32Fold Crc32FoldBy(int bits) { return {Crc32Power(bits + 32), Crc32Power(bits - 32)}; }

static_assert(Crc32FoldBy(512).low == 0x1'5444'2bd4 && Crc32FoldBy(512).high == 0x1'c6e4'1596);
static_assert(Crc32FoldBy(128).low == 0x1'7519'97d0 && Crc32FoldBy(128).high == 0x0'ccaa'009e);

// P itself and floor(x^64 / P), both 33 bits and reflected, for Barrett's reduction.
inline constexpr uint64_t kCrc32ReflectedP = uint64_t{kCrc32ReflectedPolynomial} << 1 | 1;
inline constexpr uint64_t kCrc32ReflectedMu = [] {
  // Long division; the first step takes x^64 to x^32 * (P - x^32).
  uint64_t mu = 1;  // the quotient's x^32, reflected: bit 0
  uint32_t remainder = kCrc32Polynomial;
  for (int bit = 1; bit <= 32; ++bit) {
    const bool divides = (remainder >> 31) != 0;
    remainder = (remainder << 1) ^ (divides ? kCrc32Polynomial : 0);
    if (divides) mu |= uint64_t{1} << bit;
  }
  return mu;
}();
static_assert(kCrc32ReflectedP == 0x1'db71'0641 && kCrc32ReflectedMu == 0x1'f701'1641);

inline uint32_t Crc32Byte(uint32_t state, uint8_t byte) {
  return (state >> 8) ^ kCrc32Tables[0][(state ^ byte) & 0xff];
}

}  // namespace uroce::transport
