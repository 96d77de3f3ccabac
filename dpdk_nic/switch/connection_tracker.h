#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "dpdk_nic/control/messages.h"
#include "dpdk_nic/switch/frame_classifier.h"
#include "transport/cm/identifiers.h"
#include "transport/ids.h"
#include "transport/time.h"

namespace uroce::nic {

// The connections that processes made by the connection manager, as far as the switch saw their
// messages. The switch speaks for a process that cannot: when the process dies, it ends its
// connections, because the peers would not notice before they send something, and many only wait;
// and it answers a DREQ that the process leaves unanswered, because it is stopped.
//
//   REP, for a REQ       +------+  DREQ of the peer  +---------------+  kAnswerWithin  +----------+
//   -------------------> | open | -----------------> | disconnecting | --------------> | answered |
//                        +------+                    +---------------+   DREP is sent  +----------+
//
//   From each of these: a DREP, a REJ, a DREQ of the process itself, or its end. Nothing is left.
//
// Not thread-safe; time is an argument.
class ConnectionTracker {
 public:
  // Connections of one process; the peers of further ones notice when they send.
  static constexpr size_t kMaxConnections = 4'096;
  // A process that runs answers within milliseconds, even on a busy host. A peer repeats its DREQ
  // after 4.3 s, and gives up after a minute.
  static constexpr transport::Duration kAnswerWithin = transport::Milliseconds(500);

  enum class Progress : uint8_t { kOpen, kDisconnecting, kAnswered };

  struct Connection {
    transport::cm::CommunicationId local_id;
    transport::cm::CommunicationId remote_id;
    transport::Qpn remote_qpn;
    transport::Gid local_gid;
    transport::MacAddress local_mac{};
    transport::Gid remote_gid;
    transport::MacAddress remote_mac{};
    bool is_requester = false;  // the process sent the REQ
    bool is_ready = false;      // the RTU was seen
    Progress progress = Progress::kOpen;
    uint64_t transaction_id = 0;         // of the peer's DREQ
    std::vector<uint8_t> undelivered{};  // the frame of that DREQ, while the ring has no room
    transport::Time due{};               // when TakeDue is to return it
  };

  // To be called for a message that the switch passes on, whose sender was checked; kSwitchBlock:
  // the wire. `requester_qpn`: for a REP, the requester's queue pair, from the REQ that it answers;
  // 0: it answers none, and makes no connection.
  void Follow(control::Block sender, control::Block receiver, const RoceHeaders& headers,
              std::span<const uint8_t> mad, transport::Qpn requester_qpn);
  // The requester's queue pair, as a REQ names it; 0 for other messages.
  static transport::Qpn RequesterQpn(std::span<const uint8_t> mad);

  // The connection of `block` that a message from `remote_gid` is about; nullptr if it is not
  // known. Valid until the next message is followed.
  Connection* Find(control::Block block, transport::cm::CommunicationId local_id,
                   transport::cm::CommunicationId remote_id, const transport::Gid& remote_gid);
  // The peer has sent its DREQ. TakeDue returns the connection if it is still there kAnswerWithin
  // from now.
  void BeginDisconnect(transport::Time now, Connection& connection, uint64_t transaction_id);
  // Makes TakeDue return the connection once more.
  void LookAgain(transport::Time now, Connection& connection);
  // A connection whose time has come, and that is not open.
  Connection* TakeDue(transport::Time now);
  transport::Time NextDeadline() const {
    return waiting_.empty() ? transport::kNever : waiting_.front().due;
  }

  // Forgets the process. Returns its connections.
  std::vector<Connection> Remove(control::Block block);

 private:
  using Connections = std::map<transport::cm::CommunicationId, Connection>;  // by local_id
  struct Waiting {
    transport::Time due;
    transport::cm::CommunicationId local_id;
  };

  void Add(control::Block block, const Connection& connection);
  void MarkReady(control::Block block, transport::cm::CommunicationId local_id,
                 const transport::Gid& remote_gid);
  // Ends a connection of the process, if `remote_gid` is that of its peer.
  void End(control::Block block, transport::cm::CommunicationId local_id,
           const transport::Gid& remote_gid);
  Connection* FindById(control::Block block, transport::cm::CommunicationId local_id);

  std::unordered_map<control::Block, Connections> connections_;
  std::deque<Waiting> waiting_;  // the first to be due first; some are over
};

}  // namespace uroce::nic
