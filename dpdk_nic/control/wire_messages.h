#pragma once

#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "dpdk_nic/port/port_drops.h"

// What uroced and processes that have sockets of their own for other hosts say to each other.

namespace uroce::nic::control {

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
