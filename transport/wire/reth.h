#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// RDMA extended transport header (IBA 9.3.3), 16 bytes on the wire.
struct Reth {
  static constexpr size_t kBytes = 16;

  uint64_t virtual_address = 0;
  RKey rkey;
  uint32_t dma_length = 0;

  constexpr bool operator==(const Reth&) const = default;
};

// Both take exactly kBytes bytes; big-endian on the wire.
inline Reth ParseReth(const uint8_t* bytes) {
  return {.virtual_address = Load64(bytes),
          .rkey = RKey{Load32(bytes + 8)},
          .dma_length = Load32(bytes + 12)};
}

inline void EmitReth(const Reth& reth, uint8_t* bytes) {
  Store64(reth.virtual_address, bytes);
  Store32(reth.rkey.value, bytes + 8);
  Store32(reth.dma_length, bytes + 12);
}

}  // namespace uroce::transport
