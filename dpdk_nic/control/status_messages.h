#pragma once

#include <array>
#include <cstdint>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/control/switch_counters.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/ids.h"

// The messages between `uroce status` and uroced.

namespace uroce::nic::control {

// Answered by one StatusDaemon, then a StatusClient for each process that the asker may see, then
// a StatusLink for each link of theirs, then StatusEnd.
struct StatusRequest {
  static constexpr MessageType kType = MessageType::kStatusRequest;
  static constexpr size_t kDescriptors = 0;
  uint32_t reserved;
};

struct StatusDaemon {
  static constexpr MessageType kType = MessageType::kStatusDaemon;
  static constexpr size_t kDescriptors = 0;
  int32_t pid;
  uint8_t is_private;
  uint8_t has_wire;
  uint8_t wire_is_up;
  uint8_t reserved;
  uint32_t mtu_bytes;
  transport::MacAddress mac;
  std::array<uint8_t, 2> reserved2;
  uint32_t gid_count;
  uint32_t clients;
  uint32_t reserved3;
  uint64_t uptime_ms;
  std::array<transport::Gid, kMaxGids> gids;
  std::array<char, kMaxNameBytes> port;  // its devargs, cut if need be; empty without a NIC
  SwitchCounters counters;
};

// Carries the memory that the process publishes its state in.
struct StatusClient {
  static constexpr MessageType kType = MessageType::kStatusClient;
  static constexpr size_t kDescriptors = 1;
  Block block;
  int32_t pid;
  uint32_t uid;
  uint32_t declared_connections;
  uint32_t groups;
  uint32_t reserved;
  uint64_t attached_ms;
  PortDrops wire_drops;                     // of its own sockets
  std::array<char, kMaxNameBytes> command;  // as /proc/PID/comm has it
};

struct StatusLink {
  static constexpr MessageType kType = MessageType::kStatusLink;
  static constexpr size_t kDescriptors = 0;
  Block block;
  Block other_block;
};

struct StatusEnd {
  static constexpr MessageType kType = MessageType::kStatusEnd;
  static constexpr size_t kDescriptors = 0;
  uint32_t reserved;
};

}  // namespace uroce::nic::control
