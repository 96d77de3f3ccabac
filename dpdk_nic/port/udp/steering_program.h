#pragma once

#include <linux/filter.h>

#include <cstdint>
#include <vector>

namespace uroce::nic {

// Which socket of a SO_REUSEPORT group has the frames of a block of QPNs: the one with this index,
// counted from 0.
struct SteeredBlock {
  uint32_t block = 0;
  uint32_t index = 0;

  auto operator<=>(const SteeredBlock&) const = default;
};

// A classic BPF program (SO_ATTACH_REUSEPORT_CBPF) that chooses the socket of a RoCEv2 datagram by
// the block of its destination QPN. What is of no block of these, and what is too short, goes to
// the socket with index 0. At most kQpnBlocks, each once.
std::vector<sock_filter> MakeSteeringProgram(std::vector<SteeredBlock> blocks);

}  // namespace uroce::nic
