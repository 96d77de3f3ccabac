#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/ids.h"

namespace uroce::transport {

// Ethernet II header without a VLAN tag, 14 bytes on the wire.
struct EthernetHeader {
  static constexpr size_t kBytes = 14;
  static constexpr uint16_t kIpv4 = 0x0800;
  static constexpr uint16_t kIpv6 = 0x86dd;

  MacAddress destination{};
  MacAddress source{};
  uint16_t ether_type = 0;

  constexpr bool operator==(const EthernetHeader&) const = default;
};

EthernetHeader ParseEthernet(const uint8_t* bytes);
void EmitEthernet(const EthernetHeader& ethernet, uint8_t* bytes);

}  // namespace uroce::transport
