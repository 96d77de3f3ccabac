#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// CRC-32 of IEEE 802.3 (reflected polynomial 0xEDB88320), the CRC that Ethernet and the ICRC use.
//
// A checksum over several pieces is a chain: the state starts as kCrc32Initial, goes through each
// piece in order, and its complement in the end is the checksum.
inline constexpr uint32_t kCrc32Initial = 0xffff'ffff;

// Runs `state` over the bytes [data, data + length).
uint32_t Crc32Update(uint32_t state, const uint8_t* data, size_t length);

// The same over `source`, copying it to `destination` (which must not overlap) on the way. Every
// source byte is read once, so the checksum is that of what was written even if another process
// changes the source meanwhile. False if the source is memory that has gone (guarded_access.h):
// then a part may have been copied, and the state is undefined.
[[nodiscard]] bool Crc32CopyAndUpdate(uint32_t& state, uint8_t* destination, const uint8_t* source,
                                      size_t length);

// The same over `data` with the bits of `mask` set in its first kCrc32MaskBytes bytes. The data
// itself is left alone, so this works on memory that may not be written.
inline constexpr size_t kCrc32MaskBytes = 128;
using Crc32Mask = std::array<uint8_t, kCrc32MaskBytes>;
uint32_t Crc32UpdateMasked(uint32_t state, const uint8_t* data, size_t length,
                           const Crc32Mask& mask);

}  // namespace uroce::transport
