#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/simulation/random.h"

namespace uroce::transport::simulation {

// The placement of a message in memory: pieces in the order of the SGE list, with gaps between
// them, within an area of `area_bytes`.
struct Layout {
  struct Piece {
    uint64_t offset;  // in the area
    uint32_t length;  // may be 0
  };
  std::vector<Piece> pieces;
  uint64_t area_bytes = 0;

  // Scatters `message`, which may be shorter than the pieces together, into the whole area. `area`
  // holds the bytes that were there before.
  void Scatter(std::span<const uint8_t> message, std::span<uint8_t> area) const;
  std::vector<uint8_t> Gather(std::span<const uint8_t> area) const;
};

// A layout of `length` bytes in at most `max_pieces` pieces; may have none if the length is 0.
Layout RandomLayout(Random& random, uint32_t length, uint32_t max_pieces);

}  // namespace uroce::transport::simulation
