#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "transport/wire/byte_order.h"

namespace uroce::transport {

// IPv6 header (RFC 8200), 40 bytes on the wire. Extension headers are not supported.
struct Ipv6Header {
  static constexpr size_t kBytes = 40;
  static constexpr uint32_t kVersion = 6;
  static constexpr uint32_t kFlowLabelMask = 0xf'ffff;

  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;      // 20 bits
  uint16_t payload_length = 0;  // without this header
  uint8_t next_header = 0;
  uint8_t hop_limit = 0;
  std::array<uint8_t, 16> source{};
  std::array<uint8_t, 16> destination{};

  constexpr bool operator==(const Ipv6Header&) const = default;
};

// nullopt if the version is not 6.
inline std::optional<Ipv6Header> ParseIpv6(const uint8_t* bytes) {
  const uint32_t word = Load32(bytes);
  if (word >> 28 != Ipv6Header::kVersion) return std::nullopt;
  Ipv6Header ip{.traffic_class = static_cast<uint8_t>(word >> 20),
                .flow_label = word & Ipv6Header::kFlowLabelMask,
                .payload_length = Load16(bytes + 4),
                .next_header = bytes[6],
                .hop_limit = bytes[7]};
  std::memcpy(ip.source.data(), bytes + 8, 16);
  std::memcpy(ip.destination.data(), bytes + 24, 16);
  return ip;
}

inline void SetIpv6PayloadLength(uint16_t payload_length, uint8_t* bytes) {
  Store16(payload_length, bytes + 4);
}

inline void EmitIpv6(const Ipv6Header& ip, uint8_t* bytes) {
  Store32(Ipv6Header::kVersion << 28 | uint32_t{ip.traffic_class} << 20 |
              (ip.flow_label & Ipv6Header::kFlowLabelMask),
          bytes);
  SetIpv6PayloadLength(ip.payload_length, bytes);
  bytes[6] = ip.next_header;
  bytes[7] = ip.hop_limit;
  std::memcpy(bytes + 8, ip.source.data(), 16);
  std::memcpy(bytes + 24, ip.destination.data(), 16);
}

}  // namespace uroce::transport
