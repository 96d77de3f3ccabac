#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "dpdk_nic/control/protocol.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/ids.h"

// The messages between uroced and processes about the NIC, and about the sockets to other hosts
// that processes have of their own.

namespace uroce::nic::control {

// The NIC's carrier came or went.
struct PortState {
  static constexpr MessageType kType = MessageType::kPortState;
  static constexpr size_t kDescriptors = 0;
  uint32_t is_up;
};

// The NIC's current addresses; zero ones mean nothing.
struct Addresses {
  static constexpr MessageType kType = MessageType::kAddresses;
  static constexpr size_t kDescriptors = 0;
  std::array<transport::Gid, kMaxGids> gids;
};

// A UDP socket that gets what other hosts send to the queue pairs of the process, one for each IP
// version. Sent when the process has named a host beyond this one (Resolve, Declare, Listen).
// uroced keeps the socket, too.
struct WireSocket {
  static constexpr MessageType kType = MessageType::kWireSocket;
  static constexpr size_t kDescriptors = 1;
  uint32_t reserved;
};

// The drops of the process's own sockets so far. Not answered.
struct WireDrops {
  static constexpr MessageType kType = MessageType::kWireDrops;
  static constexpr size_t kDescriptors = 0;
  PortDrops drops;
};

}  // namespace uroce::nic::control
