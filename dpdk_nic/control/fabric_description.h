#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dpdk_nic/control/protocol.h"
#include "transport/ids.h"

namespace uroce::nic::control {

// The properties of a fabric, the same for all its clients.
struct FabricDescription {
  uint32_t mtu_bytes = 0;  // of IP packets
  bool is_private = false;
  // Whether there is a NIC, and its link; without one the fabric ends at this host.
  bool has_wire = false;
  bool wire_is_up = false;
  // The wire is no NIC but the host's own network (UDP sockets): each path has an MTU of its own.
  bool is_uplink = false;
  // Each process may send by UDP sockets of its own: all processes are of uroced's user.
  bool by_own_sockets = false;
  transport::MacAddress mac{};
  std::vector<transport::Gid> gids;  // kMaxGids at most
  std::string port;                  // its devargs

  // Fills the fields that Welcome and StatusDaemon have in common.
  template <class Message>
  void Fill(Message& message) const {
    message.has_wire = has_wire;
    message.wire_is_up = wire_is_up;
    message.mac = mac;
    message.gid_count = static_cast<uint32_t>(std::min(gids.size(), kMaxGids));
    std::copy_n(gids.begin(), message.gid_count, message.gids.begin());
  }
};

}  // namespace uroce::nic::control
