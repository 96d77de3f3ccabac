#include "dpdk_nic/link_layer.h"

namespace uroce::nic {

transport::MacAddress MacAddressFor(const transport::Gid& gid) {
  const auto& b = gid.bytes;
  const bool link_local = b[0] == 0xfe && (b[1] & 0xc0) == 0x80;
  if (link_local && b[11] == 0xff && b[12] == 0xfe) {
    return {static_cast<uint8_t>(b[8] ^ 2), b[9], b[10], b[13], b[14], b[15]};
  }
  return {0x02, 0x75, b[12], b[13], b[14], b[15]};
}

}  // namespace uroce::nic
