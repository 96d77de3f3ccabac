#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace uroce::nic {

// The fields of an Ethernet frame that flows match. Every field is bytes in the order of the wire;
// fields of a layer that the frame does not have are zero. There is no padding: the struct is
// compared, masked and hashed as bytes.
struct FrameFields {
  // Bits of `layers`.
  static constexpr uint8_t kVlan = 1 << 0;  // an 802.1Q or 802.1ad tag, the outermost
  static constexpr uint8_t kIpv4 = 1 << 1;
  static constexpr uint8_t kIpv6 = 1 << 2;
  static constexpr uint8_t kTcp = 1 << 3;
  static constexpr uint8_t kUdp = 1 << 4;

  // Bits of `ipv4_flags`, as verbs have them: DF and MF are bits 1 and 2.
  static constexpr uint8_t kDontFragment = 1 << 1;
  static constexpr uint8_t kMoreFragments = 1 << 2;

  std::array<uint8_t, 6> destination_mac{};
  std::array<uint8_t, 6> source_mac{};
  std::array<uint8_t, 2> ether_type{};  // behind the last VLAN tag
  std::array<uint8_t, 2> vlan_tag{};    // priority 3 bits, DEI 1, identifier 12
  std::array<uint8_t, 4> ipv4_source{};
  std::array<uint8_t, 4> ipv4_destination{};
  uint8_t ipv4_protocol = 0;
  uint8_t ipv4_type_of_service = 0;
  uint8_t ipv4_time_to_live = 0;
  uint8_t ipv4_flags = 0;
  std::array<uint8_t, 16> ipv6_source{};
  std::array<uint8_t, 16> ipv6_destination{};
  std::array<uint8_t, 4> ipv6_flow_label{};  // 20 bits
  uint8_t ipv6_next_header = 0;              // of the IPv6 header itself
  uint8_t ipv6_traffic_class = 0;
  uint8_t ipv6_hop_limit = 0;
  uint8_t layers = 0;
  // Ports of TCP or UDP. A fragment other than the first has none, and headers behind an IPv6
  // extension header are not read.
  std::array<uint8_t, 2> source_port{};
  std::array<uint8_t, 2> destination_port{};

  bool operator==(const FrameFields&) const = default;
};

// Reads a frame of any content, as far as its bytes go.
FrameFields ReadFrameFields(std::span<const uint8_t> frame);

}  // namespace uroce::nic
