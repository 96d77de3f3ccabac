#pragma once

#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/events.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/path.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/qp/xrc_queues.h"
#include "transport/qp_attributes.h"
#include "transport/wire/opcode.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// What the queue pairs of an endpoint share.
struct QpEnvironment {
  const EndpointConfig& config;
  Counters& counters;
  MemoryTable& memory;
  EventQueue& events;
  DeadlineQueue& deadlines;
  TransmitSchedule& transmits;
  const XrcQueues& xrc_queues;
  // A peer on a link waits for an ACK (QpContext::peer_is_linked).
  bool is_ack_wanted = false;
};

// What the requester and the responder of one queue pair share: its number, attributes and path.
// Only QueuePair changes it, but for `completion_lost` and what a migration changes
// (path_migration.h).
struct QpContext {
  QpEnvironment& environment;
  // The truth about every attribute: `attributes.state` is the state of the queue pair. The
  // responder counts in rq_psn, the requester in sq_psn.
  QpAttributes& attributes;
  Qpn qpn;
  // What follows are bits, so that the first of `init` lies in the same cache line.
  // Whether packets may go the short ways, out and in: all about the connection is as it nearly
  // always is.
  bool uses_short_way : 1 = false;
  // The same of requests of ours, which are those of RC in RTS, and of packets that arrive: those
  // of RC in RTS, or in RTR after the first one, which raises an event. Many receivers stay there.
  bool sends_plain : 1 = false;
  bool takes_plain : 1 = false;
  // The same of ACKs of ours, which are those of RC.
  bool answers_plain : 1 = false;
  // The peer of a reliable connection is another process of this host that runs uroce. Neither side
  // asks the other for the ACKs that it gets anyhow, at the end of a pass: AckReq is for messages
  // whose completion the program has asked for, and the ACK of such a one does not wait.
  bool peer_is_linked : 1 = false;
  // In RTR a packet has come.
  bool communication_established : 1 = false;
  // Whether bare frames of the peer are taken unseen: it is in the default partition, as we are,
  // and has followed us to the path.
  bool takes_bare_frames : 1 = false;
  // The connection has migrated, and nothing that the peer has sent by the new path has come.
  bool awaits_peer_on_path : 1 = false;
  // A completion queue had no room for a completion: the queue pair has to go to ERR.
  bool completion_lost : 1 = false;

  QpInitAttributes init;
  EventSource& queue_pair;
  Path path;
  Path alternate_path;
  // That the paths were made for, whatever the GID table says now.
  Gid source_gid;
  Gid alternate_source_gid;

  Service service() const {
    switch (init.type) {
      case QpType::kUnreliableConnection:
        return Service::kUnreliableConnection;
      case QpType::kUnreliableDatagram:
        return Service::kUnreliableDatagram;
      case QpType::kXrcSend:
      case QpType::kXrcReceive:
        return Service::kExtendedReliableConnection;
      default:
        return Service::kReliableConnection;
    }
  }
  // RC, which alone has short ways; XRC is as reliable.
  bool is_rc() const { return init.type == QpType::kReliableConnection; }
  bool is_xrc() const { return is_xrc_target() || init.type == QpType::kXrcSend; }
  bool is_xrc_target() const { return init.type == QpType::kXrcReceive; }
  bool is_reliable() const { return is_rc() || is_xrc(); }
  bool is_raw() const { return init.type == QpType::kRawPacket; }
  // Whether packets with this opcode are sent to such a queue pair: those of its service, and of
  // XRC only requests to a target and only responses to an initiator. A raw packet queue pair has
  // no service.
  bool Takes(const Opcode& opcode) const {
    return opcode.service == service() && !is_raw() &&
           (!is_xrc() || opcode.IsResponse() != is_xrc_target());
  }
  // What all packets of the queue pair have in common (IBA C9-43, 17.2.8: MigReq).
  TransportHeaders Headers(Operation operation) const {
    TransportHeaders headers;
    headers.opcode.service = service();
    headers.opcode.operation = operation;
    headers.migration_request = attributes.migration_state == MigrationState::kMigrated;
    headers.pkey = pkey();
    headers.destination_qpn = attributes.destination_qpn;
    return headers;
  }
  uint16_t pkey() const { return environment.config.pkeys[attributes.pkey_index]; }
  bool is_datagram() const { return init.type == QpType::kUnreliableDatagram; }
  uint32_t mtu_bytes() const { return Bytes(attributes.path_mtu); }
};

}  // namespace uroce::transport
