#pragma once

#include <functional>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/port/packet_port.h"
#include "transport/ids.h"

namespace uroce::nic {

// Events for uroced, raised by the thread that runs the forwarder: must neither block nor call
// back.
struct SwitchListener {
  // An Ethernet address became known or changed, asked for or not, or a question timed out.
  std::function<void(const control::Neighbor&)> on_neighbor;
  // A sentence for the user about the path to a host, or about the wire; see PacketPort::Notice.
  std::function<void(const PacketPort::Notice&)> on_notice;
  // Called when the state of the wire is first known, and at every change.
  std::function<void(bool is_up)> on_wire_state;
  // The GID table of the wire has changed.
  std::function<void(const std::vector<transport::Gid>&)> on_gids;
  // The process wrote garbage into its ring, and was cut off. It may ask for another uplink.
  std::function<void(control::Block)> on_broken_uplink;
  // The wire has sockets for the processes now (SocketSharing).
  std::function<void()> on_wire_sockets;
};

}  // namespace uroce::nic
