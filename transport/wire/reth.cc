#include "transport/wire/reth.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {

Reth ParseReth(const uint8_t* bytes) {
  return {.virtual_address = Load64(bytes),
          .rkey = RKey{Load32(bytes + 8)},
          .dma_length = Load32(bytes + 12)};
}

void EmitReth(const Reth& reth, uint8_t* bytes) {
  Store64(reth.virtual_address, bytes);
  Store32(reth.rkey.value, bytes + 8);
  Store32(reth.dma_length, bytes + 12);
}

}  // namespace uroce::transport
