#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"
#include "transport/psn.h"

namespace uroce::transport {

// Base transport header (IBA 9.2), 12 bytes on the wire. Reserved bits are sent as zero and ignored
// on receipt.
struct Bth {
  static constexpr size_t kBytes = 12;

  uint8_t opcode = 0;
  bool solicited = false;
  bool migration_request = false;
  uint8_t pad_count = 0;          // 0..3 bytes between payload and ICRC
  uint8_t transport_version = 0;  // TVer, 4 bits; there is only version 0
  uint16_t pkey = 0;
  bool forward_congestion = false;
  bool backward_congestion = false;
  Qpn destination_qpn;
  bool ack_request = false;
  Psn psn;

  constexpr bool operator==(const Bth&) const = default;
};

Bth ParseBth(const uint8_t* bytes);
void EmitBth(const Bth& bth, uint8_t* bytes);

}  // namespace uroce::transport
