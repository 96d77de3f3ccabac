#include "tests/simulation/layout.h"

#include <algorithm>
#include <cstring>

namespace uroce::transport::simulation {

void Layout::Scatter(std::span<const uint8_t> message, std::span<uint8_t> area) const {
  for (const Piece& piece : pieces) {
    const size_t length = std::min<size_t>(piece.length, message.size());
    if (length > 0) std::memcpy(&area[piece.offset], message.data(), length);
    message = message.subspan(length);
  }
}

std::vector<uint8_t> Layout::Gather(std::span<const uint8_t> area) const {
  std::vector<uint8_t> message;
  for (const Piece& piece : pieces) {
    const auto bytes = area.subspan(piece.offset, piece.length);
    message.insert(message.end(), bytes.begin(), bytes.end());
  }
  return message;
}

Layout RandomLayout(Random& random, uint32_t length, uint32_t max_pieces) {
  Layout layout;
  if (max_pieces == 0 || (length == 0 && random.Percent(50))) return layout;
  const uint64_t count = random.Percent(50) ? 1 : random.Between(1, max_pieces);
  std::vector<uint32_t> cuts = {0, length};
  while (cuts.size() < count + 1) {
    // Equal cuts make entries of length zero.
    cuts.push_back(random.Percent(15) ? cuts.back()
                                      : static_cast<uint32_t>(random.Between(0, length)));
  }
  std::sort(cuts.begin(), cuts.end());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    layout.area_bytes += random.Percent(30) ? random.Below(9) : 0;
    layout.pieces.push_back({layout.area_bytes, cuts[i + 1] - cuts[i]});
    layout.area_bytes += cuts[i + 1] - cuts[i];
  }
  layout.area_bytes += random.Percent(30) ? random.Below(9) : 0;
  return layout;
}

}  // namespace uroce::transport::simulation
