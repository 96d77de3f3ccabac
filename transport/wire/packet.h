#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/ids.h"
#include "transport/pkey.h"
#include "transport/psn.h"
#include "transport/route.h"
#include "transport/wire/aeth.h"
#include "transport/wire/atomic_eth.h"
#include "transport/wire/deth.h"
#include "transport/wire/feth.h"
#include "transport/wire/flow.h"
#include "transport/wire/opcode.h"
#include "transport/wire/reth.h"
#include "transport/wire/xrceth.h"

namespace uroce::transport {

// The BTH and the extension headers of a packet in host form. Which extension headers exist on the
// wire is decided by the opcode alone; the others are ignored on emit and zero after a parse.
struct TransportHeaders {
  Opcode opcode;
  bool solicited = false;
  bool migration_request = true;     // 1 = migrated, the state of a QP without path migration
  bool forward_congestion = false;   // FECN
  bool backward_congestion = false;  // BECN
  bool ack_request = false;
  uint16_t pkey = kDefaultPkey;
  Qpn destination_qpn;
  Psn psn;
  Deth deth;
  Xrceth xrceth;
  Feth feth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  uint64_t atomic_original = 0;  // AtomicAckETH: the old value
  uint32_t immediate = 0;        // four bytes as they lie on the wire
  RKey invalidate_rkey;          // IETH
};

// A received packet, parsed. `payload` excludes the pad bytes and lies in the packet.
struct Packet : TransportHeaders {
  Flow flow;
  Route from = Route::kWire;    // the route by which packets to its sender go
  uint16_t identification = 0;  // of the IPv4 packet
  size_t padded_bytes = 0;      // from the BTH to the pad
  std::span<const uint8_t> payload;
};

}  // namespace uroce::transport
