#include "transport/wire/udp.h"

#include "transport/wire/byte_order.h"

namespace uroce::transport {

UdpHeader ParseUdp(const uint8_t* bytes) {
  return {.source_port = Load16(bytes),
          .destination_port = Load16(bytes + 2),
          .length = Load16(bytes + 4),
          .checksum = Load16(bytes + 6)};
}

void EmitUdp(const UdpHeader& udp, uint8_t* bytes) {
  Store16(udp.source_port, bytes);
  Store16(udp.destination_port, bytes + 2);
  SetUdpLength(udp.length, bytes);
  Store16(udp.checksum, bytes + 6);
}

void SetUdpLength(uint16_t length, uint8_t* bytes) { Store16(length, bytes + 4); }

}  // namespace uroce::transport
