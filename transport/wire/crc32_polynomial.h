#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

// What the CRC-32 kernels compute at compile time from the polynomial.
namespace uroce::transport {

inline constexpr uint32_t kCrc32ReflectedPolynomial = 0xedb8'8320;

// kCrc32Tables[0][b]: the register after the byte b went through it; [k][b]: and k zero bytes more.
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

inline uint32_t Crc32Byte(uint32_t state, uint8_t byte) {
  return (state >> 8) ^ kCrc32Tables[0][(state ^ byte) & 0xff];
}

}  // namespace uroce::transport
