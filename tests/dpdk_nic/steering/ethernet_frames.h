#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/ipv4.h"

// Ethernet frames as any host may send them, for tests.
namespace uroce::nic {

using Frame = std::vector<uint8_t>;

inline constexpr transport::MacAddress kTo = {2, 0, 0, 0, 0, 2};
inline constexpr transport::MacAddress kFrom = {2, 0, 0, 0, 0, 1};
inline constexpr std::array<uint8_t, 4> kFromIpv4 = {10, 0, 0, 1};
inline constexpr std::array<uint8_t, 4> kToIpv4 = {10, 0, 0, 2};
inline constexpr uint8_t kTcpNumber = 6;
inline constexpr uint8_t kUdpNumber = 17;

inline Frame EthernetFrame(uint16_t ether_type, std::span<const uint8_t> payload,
                           const transport::MacAddress& to = kTo) {
  Frame frame(transport::EthernetHeader::kBytes + payload.size());
  transport::EmitEthernet({to, kFrom, ether_type}, frame.data());
  std::copy(payload.begin(), payload.end(),
            frame.begin() + static_cast<ptrdiff_t>(transport::EthernetHeader::kBytes));
  return frame;
}

// The ports with which TCP and UDP begin, and four zero bytes.
inline Frame Segment(uint16_t source_port, uint16_t destination_port) {
  Frame segment(8);
  transport::Store16(source_port, segment.data());
  transport::Store16(destination_port, segment.data() + 2);
  return segment;
}

inline Frame Ipv4Packet(uint8_t protocol, std::span<const uint8_t> segment) {
  Frame packet(transport::Ipv4Header::kBytes);
  transport::EmitIpv4({.traffic_class = 0x2e,
                       .total_length = static_cast<uint16_t>(packet.size() + segment.size()),
                       .time_to_live = 63,
                       .protocol = protocol,
                       .source = kFromIpv4,
                       .destination = kToIpv4},
                      packet.data());
  packet.insert(packet.end(), segment.begin(), segment.end());
  return packet;
}

inline Frame UdpFrame(uint16_t source_port, uint16_t destination_port,
                      const transport::MacAddress& to = kTo) {
  return EthernetFrame(transport::EthernetHeader::kIpv4,
                       Ipv4Packet(kUdpNumber, Segment(source_port, destination_port)), to);
}

// The frame with a tag of this type inserted behind its addresses.
inline Frame Tagged(Frame frame, uint16_t tag_type, uint16_t tag) {
  std::array<uint8_t, transport::EthernetHeader::kVlanTagBytes> bytes;
  transport::Store16(tag_type, bytes.data());
  transport::Store16(tag, bytes.data() + 2);
  frame.insert(frame.begin() + static_cast<ptrdiff_t>(transport::EthernetHeader::kEtherTypeOffset),
               bytes.begin(), bytes.end());
  return frame;
}

}  // namespace uroce::nic
