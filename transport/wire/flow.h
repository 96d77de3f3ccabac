#pragma once

#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// The properties that packets from one host to another have in common. On a wire they are in the
// Ethernet, IP and UDP headers (encapsulation.h).
struct Flow {
  Gid source;  // of the same IP version as `destination`
  Gid destination;
  MacAddress source_mac{};       // zero if the port does not know it
  MacAddress destination_mac{};  // the same; not that of each packet that Decapsulator has stripped
  uint16_t source_port = 0;
  uint32_t flow_label = 0;    // of IPv6, 20 bits
  uint8_t traffic_class = 0;  // with the two ECN bits
  uint8_t hop_limit = 0;

  bool operator==(const Flow&) const = default;
  bool is_ipv6() const { return !destination.IsIpv4Mapped(); }
  // Whether an answer to the source reaches one host at the most.
  bool HasUnicastSource() const { return !source.IsMulticast() && (source_mac[0] & 1) == 0; }
};

}  // namespace uroce::transport
