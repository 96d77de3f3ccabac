#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// RDMA extended transport header (IBA 9.3.1), 16 bytes on the wire.
struct Reth {
  static constexpr size_t kBytes = 16;

  uint64_t virtual_address = 0;
  RKey rkey;
  uint32_t dma_length = 0;

  constexpr bool operator==(const Reth&) const = default;
};

// Both take exactly kBytes bytes; big-endian on the wire.
Reth ParseReth(const uint8_t* bytes);
void EmitReth(const Reth& reth, uint8_t* bytes);

}  // namespace uroce::transport
