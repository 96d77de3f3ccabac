#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/ids.h"

// What uroced and the processes say to each other about the NIC, and about sockets that processes
// have of their own for other hosts.

namespace uroce::nic::control {

// The NIC's carrier came or went.
struct PortState {
  static constexpr MessageType kType = MessageType::kPortState;
  static constexpr size_t kDescriptors = 0;
  uint32_t is_up;
};

// The NIC's addresses are these now; zero ones mean nothing.
struct Addresses {
  static constexpr MessageType kType = MessageType::kAddresses;
  static constexpr size_t kDescriptors = 0;
  std::array<transport::Gid, kMaxGids> gids;
};

// A UDP socket that gets what other hosts send to the queue pairs of the process, one of each IP
// version, when it has named a host beyond this one (Resolve, Declare, Listen). It is uroced's,
// too.
struct WireSocket {
  static constexpr MessageType kType = MessageType::kWireSocket;
  static constexpr size_t kDescriptors = 1;
  uint32_t reserved;
};

// What the process's own sockets lost so far. Not answered.
struct WireDrops {
  static constexpr MessageType kType = MessageType::kWireDrops;
  static constexpr size_t kDescriptors = 0;
  PortDrops drops;
};

}  // namespace uroce::nic::control
