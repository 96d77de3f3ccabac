#include "dpdk_nic/port/faults/roce_frame.h"

#include <algorithm>

#include "transport/wire/bth.h"
#include "transport/wire/byte_order.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/extension_headers.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/opcode.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Bth;
using transport::EthernetHeader;
using transport::Ipv4Header;
using transport::Ipv6Header;
using transport::Load16;
using transport::Store16;
using transport::UdpHeader;

constexpr size_t kIp = EthernetHeader::kBytes;
constexpr uint8_t kCongestionExperienced = 3;

}  // namespace

std::optional<RoceFrame> FindRoce(std::span<const uint8_t> frame) {
  if (frame.size() < kIp + Ipv4Header::kBytes) return std::nullopt;
  const uint16_t ether_type = Load16(&frame[EthernetHeader::kEtherTypeOffset]);
  RoceFrame roce{};
  roce.is_ipv6 = ether_type == EthernetHeader::kIpv6;
  if (!roce.is_ipv6 && ether_type != EthernetHeader::kIpv4) return std::nullopt;

  const bool has_options = !roce.is_ipv6 && frame[kIp] != 0x45;  // no RoCEv2 device sends any
  if (has_options) return std::nullopt;
  constexpr size_t kIpv4Protocol = 9;
  constexpr size_t kIpv6NextHeader = 6;
  const uint8_t protocol = frame[kIp + (roce.is_ipv6 ? kIpv6NextHeader : kIpv4Protocol)];
  const size_t udp = kIp + (roce.is_ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes);
  roce.bth = udp + UdpHeader::kBytes;
  if (protocol != UdpHeader::kIpProtocol) return std::nullopt;
  if (frame.size() < roce.bth + Bth::kBytes + transport::kIcrcBytes) return std::nullopt;

  const UdpHeader udp_header = transport::ParseUdp(&frame[udp]);
  if (udp_header.destination_port != UdpHeader::kRocePort) return std::nullopt;
  roce.end = udp + udp_header.length;
  if (roce.end > frame.size()) return std::nullopt;
  if (roce.end < roce.bth + Bth::kBytes + transport::kIcrcBytes) return std::nullopt;
  roce.icrc = roce.end - transport::kIcrcBytes;

  const auto opcode = transport::ParseOpcode(frame[roce.bth]);
  const size_t extensions = opcode ? transport::ExtensionBytes(*opcode) : 0;
  roce.payload = std::min(roce.bth + Bth::kBytes + extensions, roce.icrc);
  return roce;
}

void MarkCongestionExperienced(const RoceFrame& roce, std::span<uint8_t> frame) {
  uint8_t* ip = &frame[kIp];
  if (roce.is_ipv6) {
    ip[1] |= kCongestionExperienced << 4;  // the traffic class lies across bytes 0 and 1
    return;
  }
  // RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
  constexpr size_t kChecksum = 10;
  uint32_t sum = static_cast<uint16_t>(~Load16(&ip[kChecksum]));
  sum += static_cast<uint16_t>(~Load16(ip));
  ip[1] |= kCongestionExperienced;
  sum += Load16(ip);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  Store16(static_cast<uint16_t>(~sum), &ip[kChecksum]);
}

}  // namespace uroce::nic
