#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

namespace uroce::nic {

// The Address Resolution Protocol for IPv4 over Ethernet (RFC 826).
struct ArpPacket {
  enum class Operation : uint16_t { kRequest = 1, kReply = 2 };
  using Ipv4Address = std::array<uint8_t, 4>;

  Operation operation = Operation::kRequest;
  transport::MacAddress sender_mac{};
  Ipv4Address sender_ip{};
  transport::MacAddress target_mac{};  // means nothing in a request
  Ipv4Address target_ip{};

  bool operator==(const ArpPacket&) const = default;
};

inline constexpr uint16_t kArpEthertype = 0x0806;
inline constexpr size_t kArpFrameBytes = 14 + 28;
inline constexpr transport::MacAddress kBroadcastMac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

// nullopt if `frame` (Ethernet header first) is not a well-formed ARP packet for IPv4.
std::optional<ArpPacket> ParseArp(std::span<const uint8_t> frame);

// Writes a whole frame from packet.sender_mac to `destination`. `out` holds kArpFrameBytes at
// least; returns the length.
size_t EmitArp(const ArpPacket& packet, const transport::MacAddress& destination,
               std::span<uint8_t> out);

}  // namespace uroce::nic
