#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace uroce::transport {

// IPv6 header (RFC 8200), 40 bytes on the wire. Extension headers are not supported.
struct Ipv6Header {
  static constexpr size_t kBytes = 40;

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
std::optional<Ipv6Header> ParseIpv6(const uint8_t* bytes);
void EmitIpv6(const Ipv6Header& ip, uint8_t* bytes);
void SetIpv6PayloadLength(uint16_t payload_length, uint8_t* bytes);

}  // namespace uroce::transport
