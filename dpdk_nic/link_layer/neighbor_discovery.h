#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"

namespace uroce::nic {

// A neighbour solicitation or advertisement of IPv6 (RFC 4861, 4.3 and 4.4). Addresses are GIDs.
struct NeighborMessage {
  enum class Type : uint8_t { kSolicitation = 135, kAdvertisement = 136 };

  Type type = Type::kSolicitation;
  transport::Gid source;
  transport::Gid destination;
  transport::Gid target;
  // The source's address in a solicitation, the target's in an advertisement.
  std::optional<transport::MacAddress> link_layer_address;
  bool is_router = false;  // these three in advertisements only
  bool is_solicited = false;
  bool overrides = false;

  bool operator==(const NeighborMessage&) const = default;
};

inline constexpr uint16_t kIpv6Ethertype = 0x86dd;
// Ethernet 14, IPv6 40, the message 24, one link-layer address option 8.
inline constexpr size_t kMaxNeighborMessageBytes = 14 + 40 + 24 + 8;
// ff02::1
inline constexpr transport::Gid kAllNodesGid = {
    {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

constexpr bool IsMulticastGid(const transport::Gid& gid) { return gid.bytes[0] == 0xff; }

// The group that solicitations for `gid` are sent to: ff02::1:ff00:0/104 (RFC 4291, 2.7.1).
transport::Gid SolicitedNodeGid(const transport::Gid& gid);
// The Ethernet address of an IPv6 multicast group: 33:33 and the last four bytes (RFC 2464, 7).
transport::MacAddress Ipv6MulticastMac(const transport::Gid& group);

// nullopt if `frame` (Ethernet header first) is anything else, or breaks one of the rules of
// RFC 4861, 7.1.1 and 7.1.2: hop limit 255, checksum, code, lengths, addresses.
std::optional<NeighborMessage> ParseNeighborMessage(std::span<const uint8_t> frame);

// Writes a whole frame. `out` holds kMaxNeighborMessageBytes at least; returns the length.
size_t EmitNeighborMessage(const NeighborMessage& message,
                           const transport::MacAddress& ethernet_source,
                           const transport::MacAddress& ethernet_destination,
                           std::span<uint8_t> out);

}  // namespace uroce::nic
