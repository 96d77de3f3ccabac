#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// Atomic extended transport header (IBA 9.3.4), 28 bytes on the wire.
struct AtomicEth {
  static constexpr size_t kBytes = 28;
  static constexpr size_t kAckBytes = 8;  // AtomicAckETH: the original 64 bits

  uint64_t virtual_address = 0;
  RKey rkey;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;

  constexpr bool operator==(const AtomicEth&) const = default;
};

inline AtomicEth ParseAtomicEth(const uint8_t* bytes) {
  return {.virtual_address = Load64(bytes),
          .rkey = RKey{Load32(bytes + 8)},
          .swap_or_add = Load64(bytes + 12),
          .compare = Load64(bytes + 20)};
}

inline void EmitAtomicEth(const AtomicEth& atomic, uint8_t* bytes) {
  Store64(atomic.virtual_address, bytes);
  Store32(atomic.rkey.value, bytes + 8);
  Store64(atomic.swap_or_add, bytes + 12);
  Store64(atomic.compare, bytes + 20);
}

}  // namespace uroce::transport
