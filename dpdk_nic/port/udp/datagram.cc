#include "dpdk_nic/port/udp/datagram.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/wire/bth.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::EthernetHeader;
using transport::Gid;
using transport::Ipv4Header;
using transport::Ipv6Header;
using transport::UdpHeader;

constexpr size_t kMinPayloadBytes = transport::Bth::kBytes + transport::kIcrcBytes;
// A socket does not show the hop limit that a packet arrived with.
constexpr uint8_t kHopLimit = 64;

std::array<uint8_t, 4> Ipv4Of(const Gid& gid) {
  return {gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]};
}

// The value of a control message of either size that the kernel uses.
std::optional<int> ValueOf(const cmsghdr& header) {
  if (header.cmsg_len == CMSG_LEN(sizeof(int))) {
    int value = 0;
    std::memcpy(&value, CMSG_DATA(&header), sizeof value);
    return value;
  }
  if (header.cmsg_len == CMSG_LEN(sizeof(uint8_t))) return *CMSG_DATA(&header);
  return std::nullopt;
}

// The address that a packet came to, if this control message tells it.
std::optional<Gid> DestinationOf(const cmsghdr& header) {
  if (header.cmsg_level == IPPROTO_IP && header.cmsg_type == IP_PKTINFO &&
      header.cmsg_len == CMSG_LEN(sizeof(in_pktinfo))) {
    in_pktinfo info;
    std::memcpy(&info, CMSG_DATA(&header), sizeof info);
    std::array<uint8_t, 4> address;
    std::memcpy(address.data(), &info.ipi_addr, address.size());
    return Gid::FromIpv4(address);
  }
  if (header.cmsg_level == IPPROTO_IPV6 && header.cmsg_type == IPV6_PKTINFO &&
      header.cmsg_len == CMSG_LEN(sizeof(in6_pktinfo))) {
    Gid gid;
    std::memcpy(gid.bytes.data(), CMSG_DATA(&header), gid.bytes.size());  // its first member
    return gid;
  }
  return std::nullopt;
}

}  // namespace

bool ReadDatagramInfo(const msghdr& message, size_t bytes, const Gid& own, DatagramInfo* info,
                      PortDrops* drops) {
  info->destination = own;
  if ((message.msg_flags & MSG_TRUNC) != 0) return ++(*drops)[PortDrop::kTruncated], false;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return ++(*drops)[PortDrop::kUnmarked], false;
  std::optional<int> traffic_class;
  int segment_bytes = static_cast<int>(bytes);
  msghdr copy = message;  // CMSG_NXTHDR takes no const msghdr
  for (cmsghdr* header = CMSG_FIRSTHDR(&copy); header != nullptr;
       header = CMSG_NXTHDR(&copy, header)) {
    const auto value = ValueOf(*header);
    if (const auto destination = DestinationOf(*header)) info->destination = *destination;
    const int level = header->cmsg_level;
    const int type = header->cmsg_type;
    const bool is_ipv4_tos = level == IPPROTO_IP && type == IP_TOS;
    const bool is_ipv6_class = level == IPPROTO_IPV6 && type == IPV6_TCLASS;
    if (is_ipv4_tos || is_ipv6_class) traffic_class = value;
    if (level == SOL_UDP && type == UDP_GRO) segment_bytes = value.value_or(0);
  }
  if (!traffic_class || IsWildcard(info->destination)) {
    return ++(*drops)[PortDrop::kUnmarked], false;
  }
  const bool has_bytes = segment_bytes > 0 || bytes == 0;
  if (!has_bytes) return ++(*drops)[PortDrop::kBadSegment], false;

  const auto& address = *static_cast<const sockaddr_storage*>(message.msg_name);
  info->source = GidOf(address);
  const Gid& destination = info->destination;
  if (info->source == destination || info->source.IsIpv4Mapped() != destination.IsIpv4Mapped()) {
    return ++(*drops)[PortDrop::kOwnAddress], false;
  }
  info->source_port = PortOf(address);
  info->traffic_class = static_cast<uint8_t>(*traffic_class);
  info->segment_bytes = static_cast<size_t>(segment_bytes);
  return true;
}

DatagramFrames::DatagramFrames(std::span<uint8_t> bytes, const DatagramInfo& info,
                               const transport::MacAddress& mac)
    : rest_(bytes), info_(info), mac_(mac), source_mac_(MacAddressFor(info.source)) {}

std::span<const uint8_t> DatagramFrames::Next(PeerIdentifications* peers, PortDrops* drops) {
  while (!rest_.empty()) {
    const std::span<uint8_t> payload = rest_.first(std::min(info_.segment_bytes, rest_.size()));
    rest_ = rest_.subspan(payload.size());
    if (payload.size() < kMinPayloadBytes) {
      ++(*drops)[PortDrop::kTooShort];
      continue;
    }
    if (payload.size() + kHeadroomBytes > transport::kMaxFrameBytes) {
      ++(*drops)[PortDrop::kTooLong];
      continue;
    }
    return MakeFrame(payload, peers, drops);
  }
  return {};
}

size_t DatagramFrames::header_bytes() const {
  return EthernetHeader::kBytes + (is_ipv6() ? Ipv6Header::kBytes : Ipv4Header::kBytes) +
         UdpHeader::kBytes;
}

void DatagramFrames::WriteHeaders(size_t payload_bytes) {
  payload_bytes_ = payload_bytes;
  const size_t udp_bytes = UdpHeader::kBytes + payload_bytes;
  uint8_t* const ip = headers() + EthernetHeader::kBytes;
  transport::EmitEthernet({.destination = mac_,
                           .source = source_mac_,
                           .ether_type = is_ipv6() ? EthernetHeader::kIpv6 : EthernetHeader::kIpv4},
                          headers());
  transport::EmitUdp({.source_port = info_.source_port,
                      .destination_port = UdpHeader::kRocePort,
                      .length = static_cast<uint16_t>(udp_bytes)},
                     room_.data() + kHeadroomBytes - UdpHeader::kBytes);
  if (is_ipv6()) {
    transport::EmitIpv6({.traffic_class = info_.traffic_class,
                         .payload_length = static_cast<uint16_t>(udp_bytes),
                         .next_header = UdpHeader::kIpProtocol,
                         .hop_limit = kHopLimit,
                         .source = info_.source.bytes,
                         .destination = info_.destination.bytes},
                        ip);
    return;
  }
  transport::EmitIpv4({.traffic_class = info_.traffic_class,
                       .total_length = static_cast<uint16_t>(Ipv4Header::kBytes + udp_bytes),
                       .time_to_live = kHopLimit,
                       .protocol = UdpHeader::kIpProtocol,
                       .source = Ipv4Of(info_.source),
                       .destination = Ipv4Of(info_.destination)},
                      ip);
  crc_after_headers_ = transport::StartIcrc(transport::IpVersion::kIpv4, headers(), header_bytes());
}

std::span<const uint8_t> DatagramFrames::MakeFrame(std::span<uint8_t> payload,
                                                   PeerIdentifications* peers, PortDrops* drops) {
  if (payload.size() != payload_bytes_) WriteHeaders(payload.size());
  std::memcpy(payload.data() - kHeadroomBytes, room_.data(), kHeadroomBytes);
  uint8_t* const begin = payload.data() - header_bytes();
  const std::span<const uint8_t> frame(begin, payload.data() + payload.size());
  icrc_check_ = transport::IcrcCheck::kNeeded;
  if (is_ipv6()) return frame;
  const auto identification = FindIdentification(payload, peers, drops);
  if (!identification) return frame;
  transport::SetIpv4Identification(*identification, headers() + EthernetHeader::kBytes,
                                   begin + EthernetHeader::kBytes);
  icrc_check_ = transport::IcrcCheck::kDone;
  return frame;
}

std::optional<uint16_t> DatagramFrames::FindIdentification(std::span<const uint8_t> payload,
                                                           PeerIdentifications* peers,
                                                           PortDrops* drops) const {
  if (payload.size() % 4 != 0) return std::nullopt;  // no RoCEv2 packet
  const size_t covered = payload.size() - transport::kIcrcBytes;
  const uint32_t crc = transport::ContinueIcrc(crc_after_headers_, payload.data(), covered);
  const auto identification =
      SolveIdentification(transport::IcrcDifference(crc, &payload[covered]),
                          payload.size() + UdpHeader::kBytes + Ipv4Header::kBytes);
  if (identification && peers->Accept(info_.source, *identification)) return identification;
  ++(*drops)[PortDrop::kBadIcrc];
  return std::nullopt;
}

}  // namespace uroce::nic
