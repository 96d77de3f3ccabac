#include "transport/wire/ipv6.h"

#include <cstring>

#include "transport/wire/byte_order.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kVersion = 6;
constexpr uint32_t kFlowLabelMask = 0xf'ffff;

}  // namespace

std::optional<Ipv6Header> ParseIpv6(const uint8_t* bytes) {
  const uint32_t word = Load32(bytes);
  if (word >> 28 != kVersion) return std::nullopt;
  Ipv6Header ip{.traffic_class = static_cast<uint8_t>(word >> 20),
                .flow_label = word & kFlowLabelMask,
                .payload_length = Load16(bytes + 4),
                .next_header = bytes[6],
                .hop_limit = bytes[7]};
  std::memcpy(ip.source.data(), bytes + 8, 16);
  std::memcpy(ip.destination.data(), bytes + 24, 16);
  return ip;
}

void EmitIpv6(const Ipv6Header& ip, uint8_t* bytes) {
  Store32(kVersion << 28 | uint32_t{ip.traffic_class} << 20 | (ip.flow_label & kFlowLabelMask),
          bytes);
  SetIpv6PayloadLength(ip.payload_length, bytes);
  bytes[6] = ip.next_header;
  bytes[7] = ip.hop_limit;
  std::memcpy(bytes + 8, ip.source.data(), 16);
  std::memcpy(bytes + 24, ip.destination.data(), 16);
}

void SetIpv6PayloadLength(uint16_t payload_length, uint8_t* bytes) {
  Store16(payload_length, bytes + 4);
}

}  // namespace uroce::transport
