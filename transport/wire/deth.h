#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// Datagram extended transport header (IBA 9.3.2), 8 bytes on the wire.
struct Deth {
  static constexpr size_t kBytes = 8;

  uint32_t qkey = 0;
  Qpn source_qpn;

  constexpr bool operator==(const Deth&) const = default;
};

inline Deth ParseDeth(const uint8_t* bytes) {
  return {.qkey = Load32(bytes), .source_qpn = Qpn{Low24(Load32(bytes + 4))}};
}

inline void EmitDeth(const Deth& deth, uint8_t* bytes) {
  Store32(deth.qkey, bytes);
  Store32(Low24(deth.source_qpn.value), bytes + 4);
}

}  // namespace uroce::transport
