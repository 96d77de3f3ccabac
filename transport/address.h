#pragma once

#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// The destination and the marking of a queue pair's packets: struct ibv_ah_attr as RoCEv2 uses it,
// with the Ethernet address of the next hop resolved.
struct AddressVector {
  Gid destination_gid;
  MacAddress destination_mac{};
  uint32_t flow_label = 0;  // 20 bits
  uint8_t source_gid_index = 0;
  uint8_t hop_limit = 64;     // IPv4 TTL, IPv6 hop limit
  uint8_t traffic_class = 0;  // IPv4 TOS, IPv6 traffic class
  uint8_t service_level = 0;  // reported back only: RoCEv2 has no field for it
  uint8_t static_rate = 0;    // enum ibv_rate (qp/pacing.h)
  uint8_t port_num = 1;

  bool operator==(const AddressVector&) const = default;
};

}  // namespace uroce::transport
