#pragma once

#include <cstdint>
#include <vector>

#include "transport/ids.h"
#include "transport/limits.h"

namespace uroce::transport {

struct EndpointConfig {
  MacAddress mac{};
  std::vector<Gid> gids;      // the GID table; index 0 is the link-local GID of the MAC
  uint32_t port_mtu = 4'250;  // largest IP packet in bytes; bounds the path MTU
  Qpn first_qpn{0x100};       // the block of QPNs that is ours
  uint32_t qpn_count = kMaxQps;
  uint32_t seed = 0;  // where in the block QPNs start, so that a restart gets other ones

  // Index in the GID table, or -1.
  int FindGid(const Gid& gid) const {
    for (size_t i = 0; i < gids.size(); ++i) {
      if (gids[i] == gid) return static_cast<int>(i);
    }
    return -1;
  }
  bool OwnsQpn(Qpn qpn) const {
    return qpn.value >= first_qpn.value && qpn.value - first_qpn.value < qpn_count;
  }
};

}  // namespace uroce::transport
