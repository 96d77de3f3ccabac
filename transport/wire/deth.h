#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// Datagram extended transport header (IBA 9.3.1), 8 bytes on the wire.
struct Deth {
  static constexpr size_t kBytes = 8;

  uint32_t qkey = 0;
  Qpn source_qpn;

  constexpr bool operator==(const Deth&) const = default;
};

Deth ParseDeth(const uint8_t* bytes);
void EmitDeth(const Deth& deth, uint8_t* bytes);

}  // namespace uroce::transport
