#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace uroce::nic {

// A block of QPNs, and the index of the socket in a SO_REUSEPORT group that gets its frames,
// counted from 0.
struct SteeredBlock {
  uint32_t block = 0;
  uint32_t index = 0;

  auto operator<=>(const SteeredBlock&) const = default;
};

// A classic BPF program (SO_ATTACH_REUSEPORT_CBPF) that chooses the socket of a RoCEv2 datagram by
// the block of its destination QPN. Datagrams of other blocks go to the socket with index
// `others`, and those that are too short to the one with index 0. At most kQpnBlocks, each once.
std::vector<sock_filter> MakeSteeringProgram(std::vector<SteeredBlock> blocks, uint32_t others = 0);

}  // namespace uroce::nic
