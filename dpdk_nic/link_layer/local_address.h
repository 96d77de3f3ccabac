#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/ids.h"

namespace uroce::nic {

// An address of this host, and the subnet that it is in.
struct LocalAddress {
  transport::Gid ip;
  // The length of the subnet's prefix, in bits of an IPv4 or IPv6 address; 0: not known.
  uint8_t prefix_bits = 0;

  bool operator==(const LocalAddress&) const = default;
};

// Addresses of a port. With the link-local one of its MAC they fill a GID table of 256, as mlx5
// has.
inline constexpr size_t kMaxLocalAddresses = 255;

// The source address for `destination`: of the same IP version, and for IPv6 of the same scope if
// there is one; of those the address whose subnet has the destination, else the one with most
// leading bits in common with it. nullptr if no address is of that IP version.
const LocalAddress* SourceFor(std::span<const LocalAddress> addresses,
                              const transport::Gid& destination);

}  // namespace uroce::nic
