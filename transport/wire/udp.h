#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

// UDP header (RFC 768), 8 bytes on the wire.
struct UdpHeader {
  static constexpr size_t kBytes = 8;
  static constexpr uint8_t kIpProtocol = 17;
  static constexpr uint16_t kRocePort = 4791;  // IBA CA17-20

  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t length = 0;    // this header included
  uint16_t checksum = 0;  // 0: not computed

  constexpr bool operator==(const UdpHeader&) const = default;
};

inline UdpHeader ParseUdp(const uint8_t* bytes) {
  return {.source_port = Load16(bytes),
          .destination_port = Load16(bytes + 2),
          .length = Load16(bytes + 4),
          .checksum = Load16(bytes + 6)};
}

inline void SetUdpLength(uint16_t length, uint8_t* bytes) { Store16(length, bytes + 4); }

inline void EmitUdp(const UdpHeader& udp, uint8_t* bytes) {
  Store16(udp.source_port, bytes);
  Store16(udp.destination_port, bytes + 2);
  SetUdpLength(udp.length, bytes);
  Store16(udp.checksum, bytes + 6);
}

}  // namespace uroce::transport
