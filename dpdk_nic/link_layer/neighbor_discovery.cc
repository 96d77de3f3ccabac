#include "dpdk_nic/link_layer/neighbor_discovery.h"

#include <algorithm>

#include "transport/wire/byte_order.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::Load16;
using transport::MacAddress;
using transport::Store16;

// Offsets in the frame.
constexpr size_t kEthertype = 12;
constexpr size_t kIpv6 = 14;
constexpr size_t kIpv6PayloadLength = kIpv6 + 4;
constexpr size_t kIpv6NextHeader = kIpv6 + 6;
constexpr size_t kIpv6HopLimit = kIpv6 + 7;
constexpr size_t kIpv6Source = kIpv6 + 8;
constexpr size_t kIpv6Destination = kIpv6 + 24;
constexpr size_t kIcmp = kIpv6 + 40;
constexpr size_t kIcmpChecksum = kIcmp + 2;
constexpr size_t kFlags = kIcmp + 4;
constexpr size_t kTarget = kIcmp + 8;
constexpr size_t kOptions = kIcmp + 24;

constexpr uint8_t kIcmpv6 = 58;
constexpr uint8_t kHopLimit = 255;  // proves that no router forwarded it
constexpr uint8_t kSourceLinkLayerAddress = 1;
constexpr uint8_t kTargetLinkLayerAddress = 2;
constexpr size_t kOptionUnitBytes = 8;
constexpr uint8_t kRouterFlag = 0x80;
constexpr uint8_t kSolicitedFlag = 0x40;
constexpr uint8_t kOverrideFlag = 0x20;

Gid ReadGid(const uint8_t* bytes) {
  Gid gid;
  std::copy_n(bytes, gid.bytes.size(), gid.bytes.begin());
  return gid;
}

template <class Bytes>
void Write(const Bytes& source, uint8_t* out) {
  std::copy(source.begin(), source.end(), out);
}

// The Internet checksum of the ICMPv6 message and its pseudo-header (RFC 4443, 2.3); 0 if the
// checksum in the message is right.
uint16_t Checksum(std::span<const uint8_t> frame) {
  const size_t icmp_bytes = frame.size() - kIcmp;
  uint64_t sum = icmp_bytes + kIcmpv6;
  for (size_t i = kIpv6Source; i + 1 < frame.size(); i += 2) sum += Load16(&frame[i]);
  if (icmp_bytes % 2 != 0) sum += static_cast<uint64_t>(frame.back()) << 8;
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

// Cuts the padding of Ethernet. Empty if it is no ICMPv6 neighbour message of sound length.
std::span<const uint8_t> IcmpFrame(std::span<const uint8_t> frame) {
  if (frame.size() < kOptions || Load16(&frame[kEthertype]) != kIpv6Ethertype) return {};
  if (frame[kIpv6] >> 4 != 6 || frame[kIpv6NextHeader] != kIcmpv6) return {};
  const uint8_t type = frame[kIcmp];
  if (type != static_cast<uint8_t>(NeighborMessage::Type::kSolicitation) &&
      type != static_cast<uint8_t>(NeighborMessage::Type::kAdvertisement)) {
    return {};
  }
  const size_t bytes = kIcmp + Load16(&frame[kIpv6PayloadLength]);
  if (bytes < kOptions || bytes > frame.size()) return {};
  return frame.first(bytes);
}

// Finds the link-layer address among the options. False if an option is malformed.
bool ParseOptions(std::span<const uint8_t> options, uint8_t wanted_type,
                  std::optional<MacAddress>* address) {
  while (!options.empty()) {
    if (options.size() < kOptionUnitBytes) return false;
    const size_t bytes = options[1] * kOptionUnitBytes;
    if (bytes == 0 || bytes > options.size()) return false;
    if (options[0] == wanted_type && bytes == kOptionUnitBytes) {
      address->emplace();
      std::copy_n(options.begin() + 2, address->value().size(), address->value().begin());
    }
    options = options.subspan(bytes);
  }
  return true;
}

// The rules for addresses of RFC 4861, 7.1.1 and 7.1.2.
bool AddressesAreValid(const NeighborMessage& message) {
  if (IsMulticastGid(message.target)) return false;
  if (message.type == NeighborMessage::Type::kAdvertisement) {
    return !(message.is_solicited && IsMulticastGid(message.destination));
  }
  if (!message.source.IsZero()) return true;
  // Duplicate address detection.
  return message.destination == SolicitedNodeGid(message.target) && !message.link_layer_address;
}

}  // namespace

Gid SolicitedNodeGid(const Gid& gid) {
  Gid group = {{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0}};
  std::copy(gid.bytes.begin() + 13, gid.bytes.end(), group.bytes.begin() + 13);
  return group;
}

MacAddress Ipv6MulticastMac(const Gid& group) {
  const auto& b = group.bytes;
  return {0x33, 0x33, b[12], b[13], b[14], b[15]};
}

std::optional<NeighborMessage> ParseNeighborMessage(std::span<const uint8_t> frame) {
  frame = IcmpFrame(frame);
  if (frame.empty()) return std::nullopt;
  if (frame[kIpv6HopLimit] != kHopLimit || frame[kIcmp + 1] != 0 || Checksum(frame) != 0) {
    return std::nullopt;
  }
  NeighborMessage message;
  message.type = static_cast<NeighborMessage::Type>(frame[kIcmp]);
  message.source = ReadGid(&frame[kIpv6Source]);
  message.destination = ReadGid(&frame[kIpv6Destination]);
  message.target = ReadGid(&frame[kTarget]);
  const bool is_advertisement = message.type == NeighborMessage::Type::kAdvertisement;
  if (is_advertisement) {
    message.is_router = (frame[kFlags] & kRouterFlag) != 0;
    message.is_solicited = (frame[kFlags] & kSolicitedFlag) != 0;
    message.overrides = (frame[kFlags] & kOverrideFlag) != 0;
  }
  const uint8_t option = is_advertisement ? kTargetLinkLayerAddress : kSourceLinkLayerAddress;
  if (!ParseOptions(frame.subspan(kOptions), option, &message.link_layer_address)) {
    return std::nullopt;
  }
  if (!AddressesAreValid(message)) return std::nullopt;
  return message;
}

size_t EmitNeighborMessage(const NeighborMessage& message, const MacAddress& ethernet_source,
                           const MacAddress& ethernet_destination, std::span<uint8_t> out) {
  const size_t bytes = kOptions + (message.link_layer_address ? kOptionUnitBytes : 0);
  const std::span<uint8_t> frame = out.first(bytes);
  std::fill(frame.begin(), frame.end(), uint8_t{0});
  Write(ethernet_destination, &frame[0]);
  Write(ethernet_source, &frame[6]);
  Store16(kIpv6Ethertype, &frame[kEthertype]);

  frame[kIpv6] = 6 << 4;
  Store16(static_cast<uint16_t>(bytes - kIcmp), &frame[kIpv6PayloadLength]);
  frame[kIpv6NextHeader] = kIcmpv6;
  frame[kIpv6HopLimit] = kHopLimit;
  Write(message.source.bytes, &frame[kIpv6Source]);
  Write(message.destination.bytes, &frame[kIpv6Destination]);

  const bool is_advertisement = message.type == NeighborMessage::Type::kAdvertisement;
  frame[kIcmp] = static_cast<uint8_t>(message.type);
  if (is_advertisement) {
    frame[kFlags] = static_cast<uint8_t>((message.is_router ? kRouterFlag : 0) |
                                         (message.is_solicited ? kSolicitedFlag : 0) |
                                         (message.overrides ? kOverrideFlag : 0));
  }
  Write(message.target.bytes, &frame[kTarget]);
  if (message.link_layer_address) {
    frame[kOptions] = is_advertisement ? kTargetLinkLayerAddress : kSourceLinkLayerAddress;
    frame[kOptions + 1] = 1;  // in units of 8 bytes
    Write(*message.link_layer_address, &frame[kOptions + 2]);
  }
  Store16(Checksum(frame), &frame[kIcmpChecksum]);
  return bytes;
}

}  // namespace uroce::nic
