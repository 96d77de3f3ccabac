#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// XRC extended transport header, 4 bytes on the wire: 8 reserved bits and the number of the shared
// receive queue that the request is for. Every request of XRC has it, no response.
struct Xrceth {
  static constexpr size_t kBytes = 4;

  Srqn srqn;

  constexpr bool operator==(const Xrceth&) const = default;
};

// Both take exactly kBytes bytes; big-endian on the wire. Reserved bits are ignored.
inline Xrceth ParseXrceth(const uint8_t* bytes) { return {Srqn{Low24(Load32(bytes))}}; }

inline void EmitXrceth(const Xrceth& xrceth, uint8_t* bytes) { Store32(xrceth.srqn.value, bytes); }

}  // namespace uroce::transport
