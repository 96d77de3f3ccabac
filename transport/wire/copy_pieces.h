#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce::transport {

// Copies `bytes` <= kMost bytes, a few dozen, in pieces of 16 from the front and ever smaller ones
// at the end, none overlapping another: each store can be forwarded to a later load of part of it.
//
// Not a loop: the compiler turns a loop into a string instruction or a call, which cost more than
// the copying.
template <size_t kMost>
inline void CopyPieces(const uint8_t* from, size_t bytes, uint8_t* to) {
  constexpr size_t kPiece = 16;
  if constexpr (kMost >= kPiece) {
    if (bytes >= kPiece) {
      std::memcpy(to, from, kPiece);
      return CopyPieces<kMost - kPiece>(from + kPiece, bytes - kPiece, to + kPiece);
    }
  }
  const auto copy = [&](auto word) {
    if ((bytes & sizeof word) == 0) return;
    std::memcpy(to, from, sizeof word);
    to += sizeof word;
    from += sizeof word;
  };
  copy(uint64_t{});
  copy(uint32_t{});
  copy(uint16_t{});
  copy(uint8_t{});
}

}  // namespace uroce::transport
