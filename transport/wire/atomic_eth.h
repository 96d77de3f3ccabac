#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// Atomic extended transport header (IBA 9.3.3), 28 bytes on the wire.
struct AtomicEth {
  static constexpr size_t kBytes = 28;
  static constexpr size_t kAckBytes = 8;  // AtomicAckETH: the original 64 bits

  uint64_t virtual_address = 0;
  RKey rkey;
  uint64_t swap_or_add = 0;
  uint64_t compare = 0;

  constexpr bool operator==(const AtomicEth&) const = default;
};

AtomicEth ParseAtomicEth(const uint8_t* bytes);
void EmitAtomicEth(const AtomicEth& atomic, uint8_t* bytes);

}  // namespace uroce::transport
