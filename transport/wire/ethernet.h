#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/ids.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport {

// Ethernet II header without a VLAN tag, 14 bytes on the wire.
struct EthernetHeader {
  static constexpr size_t kBytes = 14;
  static constexpr size_t kVlanTagBytes = 4;  // raw packets may have one
  static constexpr size_t kSourceOffset = 6;
  static constexpr size_t kEtherTypeOffset = 12;
  static constexpr uint16_t kIpv4 = 0x0800;
  static constexpr uint16_t kIpv6 = 0x86dd;

  MacAddress destination{};
  MacAddress source{};
  uint16_t ether_type = 0;

  constexpr bool operator==(const EthernetHeader&) const = default;
};

inline EthernetHeader ParseEthernet(const uint8_t* bytes) {
  EthernetHeader ethernet;
  std::memcpy(ethernet.destination.data(), bytes, 6);
  std::memcpy(ethernet.source.data(), bytes + EthernetHeader::kSourceOffset, 6);
  ethernet.ether_type = Load16(bytes + EthernetHeader::kEtherTypeOffset);
  return ethernet;
}

inline void EmitEthernet(const EthernetHeader& ethernet, uint8_t* bytes) {
  std::memcpy(bytes, ethernet.destination.data(), 6);
  std::memcpy(bytes + EthernetHeader::kSourceOffset, ethernet.source.data(), 6);
  Store16(ethernet.ether_type, bytes + EthernetHeader::kEtherTypeOffset);
}

}  // namespace uroce::transport
