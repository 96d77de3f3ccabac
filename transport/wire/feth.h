#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/placement.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// FLUSH extended transport header (annex A19), 4 bytes on the wire: 26 reserved bits, two of
// selectivity, four of placement types.
struct Feth {
  static constexpr size_t kBytes = 4;

  uint8_t placement = 0;                          // bits of Placement
  Selectivity selectivity = Selectivity::kRange;  // two values of four are defined

  constexpr bool operator==(const Feth&) const = default;
};

// Both take exactly kBytes bytes; big-endian on the wire. Reserved bits are ignored.
inline Feth ParseFeth(const uint8_t* bytes) {
  const uint32_t bits = Load32(bytes);
  return {.placement = static_cast<uint8_t>(bits & 0xf),
          .selectivity = static_cast<Selectivity>(bits >> 4 & 0x3)};
}

inline void EmitFeth(const Feth& feth, uint8_t* bytes) {
  Store32(static_cast<uint32_t>(feth.selectivity) << 4 | feth.placement, bytes);
}

}  // namespace uroce::transport
