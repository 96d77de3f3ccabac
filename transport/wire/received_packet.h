#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/route.h"
#include "transport/wire/flow.h"

namespace uroce::transport {

// A RoCEv2 packet without the headers of the network.
struct ReceivedPacket {
  const Flow* flow = nullptr;
  std::span<const uint8_t> bytes;  // from the BTH to the pad; not empty, at least a BTH
  uint16_t identification = 0;     // of the IPv4 packet
  bool is_icrc_right = true;       // or the packet has none
  Route from = Route::kWire;       // the route by which packets to its sender go
  size_t frame_bytes = 0;          // the length of its Ethernet frame, which counters count
};

}  // namespace uroce::transport
