#include "dpdk_nic/port/udp/datagram.h"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/wire/bth.h"
#include "transport/wire/encapsulation.h"
#include "transport/wire/ethernet.h"
#include "transport/wire/frame_builder.h"
#include "transport/wire/icrc.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::kIcrcBytes;

constexpr size_t kMinBytes = transport::Bth::kBytes + kIcrcBytes;
constexpr size_t kMostBytes = transport::kMaxFrameBytes - transport::kMaxNetworkHeaderBytes;
// A socket does not show the hop limit that a packet arrived with.
constexpr uint8_t kHopLimit = 64;

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
  Gid& destination = info->flow.destination;
  destination = own;
  if ((message.msg_flags & MSG_TRUNC) != 0) return ++(*drops)[PortDrop::kTruncated], false;
  if ((message.msg_flags & MSG_CTRUNC) != 0) return ++(*drops)[PortDrop::kUnmarked], false;
  std::optional<int> traffic_class;
  int segment_bytes = static_cast<int>(bytes);
  msghdr copy = message;  // CMSG_NXTHDR takes no const msghdr
  for (cmsghdr* header = CMSG_FIRSTHDR(&copy); header != nullptr;
       header = CMSG_NXTHDR(&copy, header)) {
    const auto value = ValueOf(*header);
    if (const auto told = DestinationOf(*header)) destination = *told;
    const int level = header->cmsg_level;
    const int type = header->cmsg_type;
    const bool is_ipv4_tos = level == IPPROTO_IP && type == IP_TOS;
    const bool is_ipv6_class = level == IPPROTO_IPV6 && type == IPV6_TCLASS;
    if (is_ipv4_tos || is_ipv6_class) traffic_class = value;
    if (level == SOL_UDP && type == UDP_GRO) segment_bytes = value.value_or(0);
  }
  if (!traffic_class || IsWildcard(destination)) {
    return ++(*drops)[PortDrop::kUnmarked], false;
  }
  const bool has_bytes = segment_bytes > 0 || bytes == 0;
  if (!has_bytes) return ++(*drops)[PortDrop::kBadSegment], false;

  const auto& address = *static_cast<const sockaddr_storage*>(message.msg_name);
  const Gid source = GidOf(address);
  if (source == destination || source.IsIpv4Mapped() != destination.IsIpv4Mapped()) {
    return ++(*drops)[PortDrop::kOwnAddress], false;
  }
  info->flow.source = source;
  info->flow.source_mac = MacAddressFor(source);
  info->flow.source_port = PortOf(address);
  info->flow.traffic_class = static_cast<uint8_t>(*traffic_class);
  info->flow.hop_limit = kHopLimit;
  info->segment_bytes = static_cast<size_t>(segment_bytes);
  return true;
}

DatagramRun::DatagramRun(std::span<const uint8_t> bytes, const DatagramInfo& info)
    : rest_(bytes), info_(info) {}

const transport::ReceivedPacket* DatagramRun::Next(PeerIdentifications* peers, PortDrops* drops) {
  while (!rest_.empty()) {
    const auto datagram = rest_.first(std::min(info_.segment_bytes, rest_.size()));
    rest_ = rest_.subspan(datagram.size());
    if (datagram.size() >= kMinBytes && datagram.size() <= kMostBytes) {
      Read(datagram, peers, drops);
      return &packet_;
    }
    ++(*drops)[datagram.size() < kMinBytes ? PortDrop::kTooShort : PortDrop::kTooLong];
  }
  return nullptr;
}

void DatagramRun::Read(std::span<const uint8_t> datagram, PeerIdentifications* peers,
                       PortDrops* drops) {
  packet_ = {.flow = &info_.flow, .bytes = datagram.first(datagram.size() - kIcrcBytes)};
  const uint32_t difference = IcrcDifferenceOf(datagram);
  packet_.frame_bytes = header_bytes_ + datagram.size();
  packet_.is_icrc_right = difference == 0;
  if (info_.flow.is_ipv6()) return;
  packet_.is_icrc_right = false;
  if (datagram.size() % 4 != 0) return;  // no RoCEv2 packet
  const auto identification =
      SolveIdentification(difference, packet_.frame_bytes - transport::EthernetHeader::kBytes);
  if (!identification || !peers->Accept(info_.flow.source, *identification)) {
    ++(*drops)[PortDrop::kBadIcrc];
    return;
  }
  packet_.identification = *identification;
  packet_.is_icrc_right = true;
}

uint32_t DatagramRun::IcrcDifferenceOf(std::span<const uint8_t> datagram) {
  if (datagram.size() != datagram_bytes_) {
    const bool is_ipv6 = info_.flow.is_ipv6();
    std::array<uint8_t, transport::kMaxNetworkHeaderBytes> headers;
    const uint8_t* const end =
        transport::EmitNetworkHeaders(info_.flow, 0, datagram.size(), headers.data());
    datagram_bytes_ = datagram.size();
    header_bytes_ = static_cast<size_t>(end - headers.data());
    crc_after_headers_ =
        transport::StartIcrc(is_ipv6 ? transport::IpVersion::kIpv6 : transport::IpVersion::kIpv4,
                             headers.data(), header_bytes_);
  }
  const size_t covered = datagram.size() - kIcrcBytes;
  return transport::IcrcDifference(
      transport::ContinueIcrc(crc_after_headers_, datagram.data(), covered), &datagram[covered]);
}

}  // namespace uroce::nic
