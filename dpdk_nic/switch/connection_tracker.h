#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/frame_classifier.h"
#include "transport/cm/identifiers.h"
#include "transport/ids.h"

namespace uroce::nic {

// The connections that processes made by the connection manager, as far as the switch saw their
// messages. When a process dies, the switch ends its connections: the peers would not notice before
// they send something, and many only wait.
class ConnectionTracker {
 public:
  // Connections of one process; the peers of further ones notice when they send.
  static constexpr size_t kMaxConnections = 4'096;

  struct Connection {
    transport::cm::CommunicationId local_id;
    transport::cm::CommunicationId remote_id;
    transport::Qpn remote_qpn;
    transport::Gid local_gid;
    transport::MacAddress local_mac{};
    transport::Gid remote_gid;
    transport::MacAddress remote_mac{};
  };

  // To be called for a message that the switch passes on, whose sender was checked; kSwitchBlock:
  // the wire. `requester_qpn`: for a REP, the requester's queue pair, from the REQ.
  void Follow(control::Block sender, control::Block receiver, const RoceHeaders& headers,
              std::span<const uint8_t> mad, transport::Qpn requester_qpn);
  // The requester's queue pair, as a REQ names it; 0 for other messages.
  static transport::Qpn RequesterQpn(std::span<const uint8_t> mad);
  // Forgets the process. Returns its connections.
  std::vector<Connection> Remove(control::Block block);

 private:
  using Connections = std::map<transport::cm::CommunicationId, Connection>;  // by local_id

  void Add(control::Block block, const Connection& connection);
  // Ends a connection of the process, if `remote_gid` is that of its peer.
  void End(control::Block block, transport::cm::CommunicationId local_id,
           const transport::Gid& remote_gid);

  std::unordered_map<control::Block, Connections> connections_;
};

}  // namespace uroce::nic
