#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/counters.h"
#include "transport/endpoint_config.h"
#include "transport/events.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/peers/peer_table.h"
#include "transport/qp/deadline_queue.h"
#include "transport/qp/path.h"
#include "transport/qp/transmit_schedule.h"
#include "transport/qp/xrc_farewells.h"
#include "transport/qp/xrc_queues.h"
#include "transport/qp_attributes.h"
#include "transport/recovery/reorder_buffer.h"
#include "transport/route.h"
#include "transport/wire/opcode.h"
#include "transport/wire/packet.h"

namespace uroce::transport {

// The state that all queue pairs of an endpoint share.
struct QpEnvironment {
  const EndpointConfig& config;
  MemoryTable& memory;
  EventQueue& events;
  DeadlineQueue& deadlines;
  TransmitSchedule& transmits;
  const XrcQueues& xrc_queues;
  XrcFarewells& xrc_farewells;
  ReorderPool& reorder_pool;
  PeerTable& peers;
  uint64_t next_xrc_epoch = 1;  // XrcStreamChange
  // By route: XRC targets whose peers wait for other processes (XrcRelay).
  std::array<uint16_t, kRoutes> relaying_targets{};
  // A peer on a link waits for an ACK (QpContext::peer_is_linked).
  bool is_ack_wanted = false;
  // How many queue pairs have had a request fail with VendorError::kPeerGone.
  int lost_peers = 0;

  // Whether a peer by `route` waits for a reply.
  bool OwesReply(Route route) const {
    return transmits.OwesReply(route) || relaying_targets[static_cast<size_t>(route)] != 0;
  }
};

// The state that the requester and the responder of one queue pair share: its number, attributes
// and paths. Only QueuePair changes it, except `completion_lost` and the fields that
// path_migration.h changes.
struct QpContext {
  QpEnvironment& environment;
  // The only copy of every attribute: `attributes.state` is the state of the queue pair. The
  // responder counts in rq_psn, the requester in sq_psn.
  QpAttributes& attributes;
  Qpn qpn;
  // The flags are bits, so that the first fields of `init` lie in the same cache line.
  // Header prediction, kept by UpdatePrediction. Of our requests: RC in RTS, not paced.
  bool predicts_requests : 1 = false;
  // Of the packets that arrive: RC in RTS, or in RTR after the first packet, which raises an event;
  // many receivers stay in RTR.
  bool predicts_arrivals : 1 = false;
  // Of their network headers: a connection in MIGRATED whose peer has followed it, in the default
  // partition.
  bool predicts_network_headers : 1 = false;
  // The peer of a reliable connection is another uroce process of this host, on a link. Each side
  // sends ACKs unasked at the end of a pass, so a message asks with AckReq only if the program has
  // asked for its completion, and the ACK of such a message does not wait. After an RNR NAK, an ACK
  // of nothing new ends the wait.
  bool peer_is_linked : 1 = false;
  // A packet has arrived in RTR.
  bool communication_established : 1 = false;
  // Headerless frames of the peer need no CheckHeaderless: the connection is in the default
  // partition, and the peer has followed us to the path.
  bool takes_headerless : 1 = false;
  // The connection has migrated, and no packet of the peer has arrived by the new path.
  bool awaits_peer_on_path : 1 = false;
  // Requests have arrived behind one that is missing (Responder).
  bool has_open_gap : 1 = false;
  // The process of the peer has ended.
  bool peer_gone : 1 = false;
  // A completion queue had no room for a completion: the queue pair has to go to ERR.
  bool completion_lost : 1 = false;

  QpInitAttributes init;
  EventSource& queue_pair;
  Path path;
  Path alternate_path;
  // The source GIDs that the paths were made for, whatever the GID table holds now.
  Gid source_gid;
  Gid alternate_source_gid;
  QueuePairCounters& counters;

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
  // XRC is reliable, too.
  bool is_rc() const { return init.type == QpType::kReliableConnection; }
  bool is_xrc() const { return is_xrc_target() || init.type == QpType::kXrcSend; }
  bool is_xrc_target() const { return init.type == QpType::kXrcReceive; }
  bool is_reliable() const { return is_rc() || is_xrc(); }
  bool is_raw() const { return init.type == QpType::kRawPacket; }
  // Whether the queue pair receives packets with this opcode: those of its service, an XRC target
  // only requests, an XRC initiator only responses. A raw packet queue pair has no service.
  bool Takes(const Opcode& opcode) const {
    const bool is_ours =
        opcode.service == Service::kUroce ? is_reliable() : opcode.service == service();
    return is_ours && !is_raw() && (!is_xrc() || opcode.IsResponse() != is_xrc_target());
  }
  // The header fields that all packets of the queue pair have in common (IBA C9-43, 17.2.8:
  // MigReq).
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
