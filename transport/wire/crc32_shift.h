#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// CRC-32 is linear: the difference of the checksums of two messages of one length depends on the
// difference of the messages alone. These functions carry a difference along the message.
//
// A difference is a 32-bit word: of the four bytes at one place of the message, the first in the
// low bits, or of the CRC states before that place. `bytes` is the distance from that place to the
// end of the message, a multiple of 4 up to kMaxCrc32ShiftBytes.
inline constexpr size_t kMaxCrc32ShiftBytes = 4'352;

// Returns the difference of the checksums that results from `difference`.
uint32_t AdvanceCrc32(uint32_t difference, size_t bytes);
// The inverse: from the difference of the checksums to the one `bytes` before the end.
uint32_t RewindCrc32(uint32_t difference, size_t bytes);

}  // namespace uroce::transport
