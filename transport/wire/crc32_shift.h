#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// CRC-32 is linear: where two messages of one length differ, their checksums differ by something
// that depends on the difference alone. These two carry such a difference along the message.
//
// A difference is a 32-bit word: of the four bytes at one place of the message, the first in the
// low bits, or of the CRC states before that place. `bytes` is from there to the end of the
// message, a multiple of 4 up to kMaxCrc32ShiftBytes.
inline constexpr size_t kMaxCrc32ShiftBytes = 4'352;

// What the difference has become at the end: how the two checksums differ.
uint32_t AdvanceCrc32(uint32_t difference, size_t bytes);
// The other way round: which difference so many bytes before the end has become `difference`.
uint32_t RewindCrc32(uint32_t difference, size_t bytes);

}  // namespace uroce::transport
