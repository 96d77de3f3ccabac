#include "dpdk_nic/steering/frame_fields.h"

#include <algorithm>

#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"

namespace uroce::nic {
namespace {

using transport::EthernetHeader;
using transport::Load16;

using Bytes = std::span<const uint8_t>;

constexpr uint16_t kVlanEtherType = 0x8100;         // IEEE 802.1Q
constexpr uint16_t kServiceVlanEtherType = 0x88a8;  // IEEE 802.1ad
constexpr uint8_t kTcpProtocol = 6;
constexpr uint8_t kUdpProtocol = 17;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kPortsBytes = 4;  // TCP and UDP begin with the ports

template <size_t kCount>
void Copy(Bytes from, size_t offset, std::array<uint8_t, kCount>& to) {
  std::copy_n(from.begin() + static_cast<ptrdiff_t>(offset), kCount, to.begin());
}

void ReadPorts(Bytes segment, uint8_t protocol, FrameFields& fields) {
  const bool is_tcp = protocol == kTcpProtocol;
  if (segment.size() < kPortsBytes || (!is_tcp && protocol != kUdpProtocol)) return;
  fields.layers |= is_tcp ? FrameFields::kTcp : FrameFields::kUdp;
  Copy(segment, 0, fields.source_port);
  Copy(segment, 2, fields.destination_port);
}

// RFC 791. A header of less than five words is invalid.
void ReadIpv4(Bytes packet, FrameFields& fields) {
  if (packet.size() < kIpv4Bytes || packet[0] >> 4 != 4) return;
  const size_t header_bytes = size_t{packet[0] & 0xfu} * 4;
  if (header_bytes < kIpv4Bytes || packet.size() < header_bytes) return;
  constexpr uint16_t kDf = 0x4000;
  constexpr uint16_t kMf = 0x2000;
  constexpr uint16_t kOffset = 0x1fff;
  const uint16_t fragment = Load16(packet.data() + 6);
  fields.layers |= FrameFields::kIpv4;
  fields.ipv4_type_of_service = packet[1];
  if ((fragment & kDf) != 0) fields.ipv4_flags |= FrameFields::kDontFragment;
  if ((fragment & kMf) != 0) fields.ipv4_flags |= FrameFields::kMoreFragments;
  fields.ipv4_time_to_live = packet[8];
  fields.ipv4_protocol = packet[9];
  Copy(packet, 12, fields.ipv4_source);
  Copy(packet, 16, fields.ipv4_destination);
  if ((fragment & kOffset) != 0) return;
  ReadPorts(packet.subspan(header_bytes), fields.ipv4_protocol, fields);
}

// RFC 8200.
void ReadIpv6(Bytes packet, FrameFields& fields) {
  if (packet.size() < kIpv6Bytes || packet[0] >> 4 != 6) return;
  fields.layers |= FrameFields::kIpv6;
  fields.ipv6_traffic_class = static_cast<uint8_t>(packet[0] << 4 | packet[1] >> 4);
  fields.ipv6_flow_label = {0, static_cast<uint8_t>(packet[1] & 0xf), packet[2], packet[3]};
  fields.ipv6_next_header = packet[6];
  fields.ipv6_hop_limit = packet[7];
  Copy(packet, 8, fields.ipv6_source);
  Copy(packet, 24, fields.ipv6_destination);
  ReadPorts(packet.subspan(kIpv6Bytes), fields.ipv6_next_header, fields);
}

bool IsVlan(uint16_t ether_type) {
  return ether_type == kVlanEtherType || ether_type == kServiceVlanEtherType;
}

}  // namespace

FrameFields ReadFrameFields(Bytes frame) {
  static_assert(sizeof(FrameFields) == 72, "padding would be compared");
  FrameFields fields;
  if (frame.size() < EthernetHeader::kBytes) return fields;
  Copy(frame, 0, fields.destination_mac);
  Copy(frame, EthernetHeader::kSourceOffset, fields.source_mac);
  size_t at = EthernetHeader::kEtherTypeOffset;
  while (IsVlan(Load16(frame.data() + at)) &&
         frame.size() >= at + 2 + EthernetHeader::kVlanTagBytes) {
    if ((fields.layers & FrameFields::kVlan) == 0) Copy(frame, at + 2, fields.vlan_tag);
    fields.layers |= FrameFields::kVlan;
    at += EthernetHeader::kVlanTagBytes;
  }
  Copy(frame, at, fields.ether_type);
  const Bytes packet = frame.subspan(at + 2);
  const uint16_t ether_type = Load16(fields.ether_type.data());
  if (ether_type == EthernetHeader::kIpv4) ReadIpv4(packet, fields);
  if (ether_type == EthernetHeader::kIpv6) ReadIpv6(packet, fields);
  return fields;
}

}  // namespace uroce::nic
