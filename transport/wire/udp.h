#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::transport {

// UDP header (RFC 768), 8 bytes on the wire.
struct UdpHeader {
  static constexpr size_t kBytes = 8;
  static constexpr uint8_t kIpProtocol = 17;
  static constexpr uint16_t kRocePort = 4791;

  uint16_t source_port = 0;
  uint16_t destination_port = 0;
  uint16_t length = 0;    // this header included
  uint16_t checksum = 0;  // 0: not computed

  constexpr bool operator==(const UdpHeader&) const = default;
};

UdpHeader ParseUdp(const uint8_t* bytes);
void EmitUdp(const UdpHeader& udp, uint8_t* bytes);
void SetUdpLength(uint16_t length, uint8_t* bytes);

}  // namespace uroce::transport
