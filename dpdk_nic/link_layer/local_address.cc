#include "dpdk_nic/link_layer/local_address.h"

#include <tuple>

namespace uroce::nic {
namespace {

using transport::Gid;

bool IsLinkLocal(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

// How many leading bits are the same in two addresses of the same IP version.
int CommonPrefixBits(const Gid& a, const Gid& b) {
  int bits = 0;
  for (size_t i = a.IsIpv4Mapped() ? 12 : 0; i < a.bytes.size(); ++i) {
    for (int mask = 0x80; mask != 0; mask >>= 1) {
      if (((a.bytes[i] ^ b.bytes[i]) & mask) != 0) return bits;
      ++bits;
    }
  }
  return bits;
}

// The address with the greatest tuple is the best source.
auto Fitness(const LocalAddress& address, const Gid& destination) {
  const int common_bits = CommonPrefixBits(address.ip, destination);
  const bool known = address.prefix_bits != 0;
  const int subnet_bits = known && common_bits >= address.prefix_bits ? address.prefix_bits : 0;
  const bool same_scope = IsLinkLocal(address.ip) == IsLinkLocal(destination);
  return std::tuple(same_scope, subnet_bits, common_bits);
}

}  // namespace

const LocalAddress* SourceFor(std::span<const LocalAddress> addresses, const Gid& destination) {
  const LocalAddress* best = nullptr;
  for (const LocalAddress& address : addresses) {
    if (address.ip.IsIpv4Mapped() != destination.IsIpv4Mapped()) continue;
    if (best == nullptr || Fitness(address, destination) > Fitness(*best, destination)) {
      best = &address;
    }
  }
  return best;
}

}  // namespace uroce::nic
