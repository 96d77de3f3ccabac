#pragma once

#include <cstdint>
#include <vector>

#include "tests/system/mover/operation.h"
#include "tests/system/mover/random.h"

namespace mover {

// Hands out the bytes of an arena from its start, each range behind a gap of canaries, which no
// operation may touch. Ranges of Take have any alignment.
class ArenaSpace {
 public:
  // The most bytes that a message takes beyond its length: a gap for every scatter/gather entry.
  static constexpr uint32_t kOverheadBytes = (kMaxSges + 1) * 64;

  ArenaSpace(uint32_t bytes, Random& random) : bytes_(bytes), random_(random) {}

  uint32_t left() const { return bytes_ - next_; }
  // Return the offset of the range. The caller has checked left().
  uint32_t Take(uint32_t length);
  uint32_t TakeAligned(uint32_t length, uint32_t alignment);
  // `length` bytes in up to kMaxSges pieces, some of which may be empty.
  std::vector<Piece> TakePieces(uint32_t length);

 private:
  static constexpr uint32_t kMaxGapBytes = 40;

  const uint32_t bytes_;
  Random& random_;
  uint32_t next_ = 0;
};

}  // namespace mover
