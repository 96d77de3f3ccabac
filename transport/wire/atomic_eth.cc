#include "transport/wire/atomic_eth.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {

AtomicEth ParseAtomicEth(const uint8_t* bytes) {
  return {.virtual_address = Load64(bytes),
          .rkey = RKey{Load32(bytes + 8)},
          .swap_or_add = Load64(bytes + 12),
          .compare = Load64(bytes + 20)};
}

void EmitAtomicEth(const AtomicEth& atomic, uint8_t* bytes) {
  Store64(atomic.virtual_address, bytes);
  Store32(atomic.rkey.value, bytes + 8);
  Store64(atomic.swap_or_add, bytes + 12);
  Store64(atomic.compare, bytes + 20);
}

}  // namespace uroce::transport
