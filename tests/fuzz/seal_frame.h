#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/wire/ethernet.h"
#include "transport/wire/icrc.h"
#include "transport/wire/ipv4.h"
#include "transport/wire/ipv6.h"
#include "transport/wire/udp.h"

namespace uroce::transport {

// Bytes of the Ethernet, IP and UDP headers.
inline size_t NetworkBytes(const std::vector<uint8_t>& frame) {
  const bool ipv6 = ParseEthernet(frame.data()).ether_type == EthernetHeader::kIpv6;
  return EthernetHeader::kBytes + UdpHeader::kBytes +
         (ipv6 ? Ipv6Header::kBytes : Ipv4Header::kBytes);
}

// Corrects the checksums, which a mutation of a frame cannot guess. A frame too short for them
// stays unchanged.
inline void SealFrame(std::vector<uint8_t>& frame) {
  constexpr size_t kBthBytes = 12;
  if (frame.size() < EthernetHeader::kBytes) return;
  if (frame.size() < NetworkBytes(frame) + kBthBytes + kIcrcBytes) return;
  const bool ipv6 = ParseEthernet(frame.data()).ether_type == EthernetHeader::kIpv6;
  if (!ipv6) CorrectIpv4Checksum(frame.data() + EthernetHeader::kBytes);
  const size_t icrc_at = frame.size() - kIcrcBytes;
  EmitIcrc(StartIcrc(ipv6 ? IpVersion::kIpv6 : IpVersion::kIpv4, frame.data(), icrc_at),
           frame.data() + icrc_at);
}

}  // namespace uroce::transport
