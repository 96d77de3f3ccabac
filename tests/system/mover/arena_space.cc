#include "tests/system/mover/arena_space.h"

#include <algorithm>
#include <stdexcept>

namespace mover {

uint32_t ArenaSpace::Take(uint32_t length) {
  const uint32_t offset = next_ + random_.Between(1, kMaxGapBytes);
  if (offset + length > bytes_) throw std::logic_error("the plan does not fit into its arena");
  next_ = offset + length;
  return offset;
}

uint32_t ArenaSpace::TakeAligned(uint32_t length, uint32_t alignment) {
  next_ += alignment - next_ % alignment;
  const uint32_t offset = next_ + alignment * random_.Below(kMaxGapBytes / alignment);
  if (offset + length > bytes_) throw std::logic_error("the plan does not fit into its arena");
  next_ = offset + length;
  return offset;
}

std::vector<Piece> ArenaSpace::TakePieces(uint32_t length) {
  const uint32_t count = random_.Chance(40) ? 1 : random_.Below(kMaxSges + 1);
  if (count == 0 && length == 0) return {};
  std::vector<uint32_t> cuts = {0, length};
  for (uint32_t i = 1; i < count; ++i) {
    // Two cuts at the same place make an empty piece.
    cuts.push_back(random_.Chance(10) ? cuts.back() : random_.Below(length + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  std::vector<Piece> pieces;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    const uint32_t bytes = cuts[i + 1] - cuts[i];
    pieces.push_back(
        {.offset = Take(bytes), .length = bytes, .region = static_cast<uint8_t>(random_.Below(2))});
  }
  return pieces;
}

}  // namespace mover
