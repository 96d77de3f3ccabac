#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

namespace uroce::transport {

// Big-endian loads and stores at any alignment.
template <class Integer>
constexpr Integer BigEndian(Integer value) {
  if constexpr (std::endian::native == std::endian::big || sizeof(Integer) == 1) {
    return value;
  } else if constexpr (sizeof(Integer) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(Integer) == 4) {
    return __builtin_bswap32(value);
  } else {
    static_assert(sizeof(Integer) == 8);
    return __builtin_bswap64(value);
  }
}

template <class Integer>
inline Integer LoadBigEndian(const uint8_t* bytes) {
  Integer value;
  std::memcpy(&value, bytes, sizeof value);
  return BigEndian(value);
}

template <class Integer>
inline void StoreBigEndian(Integer value, uint8_t* bytes) {
  value = BigEndian(value);
  std::memcpy(bytes, &value, sizeof value);
}

inline uint16_t Load16(const uint8_t* bytes) { return LoadBigEndian<uint16_t>(bytes); }
inline uint32_t Load32(const uint8_t* bytes) { return LoadBigEndian<uint32_t>(bytes); }
inline uint64_t Load64(const uint8_t* bytes) { return LoadBigEndian<uint64_t>(bytes); }
inline void Store16(uint16_t value, uint8_t* bytes) { StoreBigEndian(value, bytes); }
inline void Store32(uint32_t value, uint8_t* bytes) { StoreBigEndian(value, bytes); }
inline void Store64(uint64_t value, uint8_t* bytes) { StoreBigEndian(value, bytes); }

// A packet may lie in memory that another process can change, so each field is read once: after
// this call the compiler does not load again what was loaded before it.
inline void KeepWhatWasRead() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// The headers of the transport keep 24-bit numbers in the low bytes of a 32-bit word, beside eight
// other bits.
constexpr uint32_t Low24(uint32_t word) { return word & 0xff'ffff; }
constexpr uint8_t HighByte(uint32_t word) { return static_cast<uint8_t>(word >> 24); }
constexpr uint32_t Word(uint8_t high_byte, uint32_t low24) {
  return static_cast<uint32_t>(high_byte) << 24 | Low24(low24);
}

}  // namespace uroce::transport
