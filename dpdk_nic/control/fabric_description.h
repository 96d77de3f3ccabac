#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/ids.h"

namespace uroce::nic::control {

// What the clients of a fabric have in common.
struct FabricDescription {
  uint32_t mtu_bytes = 0;  // of IP packets
  bool is_private = false;
  // Of the NIC behind it; without one the fabric ends at this host.
  bool has_wire = false;
  bool wire_is_up = false;
  // Not a NIC, but the host's own network (UDP sockets): each path has an MTU of its own.
  bool is_uplink = false;
  // Each process may send by UDP sockets of its own: all of them are uroced's user's.
  bool by_own_sockets = false;
  transport::MacAddress mac{};
  std::vector<transport::Gid> gids;  // kMaxGids at most
  std::string port;                  // its devargs
};

}  // namespace uroce::nic::control
