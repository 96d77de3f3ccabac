#include "dpdk_nic/link_layer/link_layer.h"

namespace uroce::nic {

using transport::MacAddress;

std::optional<MacAddress> MulticastMac(const transport::Gid& gid) {
  const auto& b = gid.bytes;
  if (!gid.IsMulticast()) return std::nullopt;
  if (!gid.IsIpv4Mapped()) return MacAddress{0x33, 0x33, b[12], b[13], b[14], b[15]};
  return MacAddress{0x01, 0x00, 0x5e, static_cast<uint8_t>(b[13] & 0x7f), b[14], b[15]};
}

MacAddress MacAddressFor(const transport::Gid& gid) {
  if (const auto group = MulticastMac(gid)) return *group;
  const auto& b = gid.bytes;
  const bool link_local = b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
  if (link_local && b[11] == 0xff && b[12] == 0xfe) {
    return {static_cast<uint8_t>(b[8] ^ 2), b[9], b[10], b[13], b[14], b[15]};
  }
  return {0x02, 0x75, b[12], b[13], b[14], b[15]};
}

}  // namespace uroce::nic
