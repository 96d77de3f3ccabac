// The effects of peers' messages on connections. Linux, drivers/infiniband/core/cm.c, has the
// behaviour to match.
#include <algorithm>
#include <variant>

#include "transport/cm/connection_manager.h"
#include "transport/cm/limits.h"
#include "transport/cm/path_fields.h"
#include "transport/cm/timeouts.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

// nullopt: reliable datagrams, or an extension that is not XRC.
std::optional<TransportService> ServiceOf(const Req& req) {
  switch (req.transport_service_type) {
    case 0:
      return TransportService::kReliableConnection;
    case 1:
      return TransportService::kUnreliableConnection;
    case 3:
      if (req.extended_transport_type == 1) return TransportService::kXrc;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool IsMtu(uint8_t code) {
  return code >= static_cast<uint8_t>(Mtu::k256) && code <= static_cast<uint8_t>(Mtu::k4096);
}

bool IsPortGid(const Gid& gid) { return !gid.IsZero() && !gid.IsMulticast(); }

// The reason to reject a request; nullopt if there is none.
std::optional<RejectReason> Objection(const Req& req) {
  if (!ServiceOf(req)) return RejectReason::kInvalidTransportType;
  if (!IsMtu(req.path_mtu)) return RejectReason::kInvalidMtu;
  if (!IsPortGid(req.primary.local_gid)) return RejectReason::kInvalidGid;
  return std::nullopt;
}

Duration PeerTimeout(uint8_t code, uint8_t limit) { return DurationOf(std::min(code, limit)); }

void FillIn(const Req& req, const MadAddress& source, Connection& connection) {
  const Mtu mtu{req.path_mtu};
  connection.is_used = true;
  connection.was_asked_for = true;
  connection.remote_id = req.local_id;
  connection.service_id = req.service_id;
  connection.peer = source;
  connection.service = *ServiceOf(req);
  connection.remote_qpn = req.local_qpn;
  connection.sq_psn = req.starting_psn;
  connection.path = PathOf(req.primary, source, req.partition_key, mtu);
  connection.ack_timeout = static_cast<uint8_t>(connection.path.packet_life_time + 1);
  if (!req.alternate.local_gid.IsZero()) {
    connection.alternate_path = PathOf(req.alternate, source, req.partition_key, mtu);
    connection.alternate_ack_timeout =
        static_cast<uint8_t>(connection.alternate_path->packet_life_time + 1);
  }
  // The initiator depth of one end is what the responder resources of the other have to accept.
  connection.responder_resources = req.initiator_depth;
  connection.initiator_depth = req.responder_resources;
  connection.retry_count = req.retry_count;
  connection.rnr_retry_count = req.rnr_retry_count;
  connection.max_cm_retries = req.max_cm_retries;
  connection.response_timeout = PeerTimeout(req.local_cm_response_timeout, kMaxPeerResponseTimeout);
}

}  // namespace

void ConnectionManager::OnMad(Time now, std::span<const uint8_t> mad, const MadAddress& source) {
  const ParsedMad parsed = ParseMessage(mad);
  if (parsed.malformed != Malformed::kNone) {
    ++counters_.malformed[static_cast<size_t>(parsed.malformed)];
    return;
  }
  ++counters_.received[parsed.message.index()];
  const Incoming in{now, parsed, source};
  std::visit([this, &in](const auto& message) { On(in, message); }, parsed.message);
}

void ConnectionManager::CountDuplicate(const Incoming& in) {
  ++counters_.duplicates[in.mad.message.index()];
}

bool ConnectionManager::IsFromPeer(const Connection& connection, const Incoming& in) {
  if (connection.peer.path.destination_gid == in.gid()) return true;
  ++counters_.foreign_source;
  return false;
}

// --- REQ

void ConnectionManager::On(const Incoming& in, const Req& req) {
  if (!IsNewPeer(in, req)) return;
  const Connection* listener = FindListener(req.service_id);
  if (listener == nullptr) {
    RefuseRequest(in, req, RejectReason::kInvalidServiceId);
    return;
  }
  if (const auto objection = Objection(req)) {
    RefuseRequest(in, req, *objection);
    return;
  }
  Connection* connection = CreateIncoming(in, *listener);
  if (connection == nullptr) {
    // A request beyond the backlog gets no REJ: the peer repeats it.
    const bool is_beyond_backlog = *listener->unanswered >= listener->backlog;
    if (!is_beyond_backlog) RefuseRequest(in, req, RejectReason::kNoResources);
    return;
  }
  FillIn(req, in.source, *connection);
  const CommunicationId id = connection->local_id;
  List(remote_ids_, connection->remote_id_key, {req.local_ca_guid, req.local_id.value, in.gid()},
       id);
  List(remote_qpns_, connection->remote_qpn_key, {req.local_ca_guid, req.local_qpn.value, in.gid()},
       id);
  SetState(*connection, State::kReqReceived);
  Tell(EventKind::kReqReceived, *connection, in, listener->local_id);
}

// Whether neither this request nor its queue pair is known.
bool ConnectionManager::IsNewPeer(const Incoming& in, const Req& req) {
  const auto same_id = remote_ids_.find({req.local_ca_guid, req.local_id.value, in.gid()});
  if (same_id != remote_ids_.end()) {
    CountDuplicate(in);
    OnDuplicateReq(in, req, *Find(same_id->second));
    return false;
  }
  const auto same_qpn = remote_qpns_.find({req.local_ca_guid, req.local_qpn.value, in.gid()});
  if (same_qpn != remote_qpns_.end()) {
    RefuseRequest(in, req, RejectReason::kStaleConnection);
    OnStale(in.now, same_qpn->second);
    return false;
  }
  return true;
}

void ConnectionManager::OnDuplicateReq(const Incoming& in, const Req& req, Connection& connection) {
  if (connection.state == State::kMraReqSent) {
    RepeatAnswer(connection, Attribute::kMra, in);
  } else if (connection.state == State::kTimewait) {
    RefuseRequest(in, req, RejectReason::kStaleConnection);
  }
  // Else the user has yet to answer, or the timer repeats the answer.
}

// The peer has forgotten the old connection.
void ConnectionManager::OnStale(Time now, CommunicationId old) {
  ++counters_.stale;
  Connection* connection = Find(old);
  if (connection->state == State::kEstablished) BeginDisconnect(now, *connection, {});
}

// --- REP and RTU

void ConnectionManager::On(const Incoming& in, const Rep& rep) {
  Connection* connection = Find(rep.remote_id);
  if (connection == nullptr) {
    ++counters_.unmatched;
    return;
  }
  if (connection->state != State::kReqSent && connection->state != State::kMraReqReceived) {
    if (connection->remote_id != rep.local_id) {
      ++counters_.unmatched;
      return;
    }
    CountDuplicate(in);
    if (connection->state == State::kEstablished) RepeatAnswer(*connection, Attribute::kRtu, in);
    if (connection->state == State::kMraRepSent) RepeatAnswer(*connection, Attribute::kMra, in);
    return;
  }
  if (!IsFromPeer(*connection, in)) return;
  const uint32_t qpn =
      connection->service == TransportService::kXrc ? rep.local_eecn : rep.local_qpn.value;
  const PeerKey id_key{rep.local_ca_guid, rep.local_id.value, in.gid()};
  const PeerKey qpn_key{rep.local_ca_guid, qpn, in.gid()};
  if (remote_ids_.contains(id_key)) {
    CountDuplicate(in);
    return;
  }
  if (const auto stale = remote_qpns_.find(qpn_key); stale != remote_qpns_.end()) {
    Refuse(in, Rej{.local_id = rep.remote_id,
                   .remote_id = rep.local_id,
                   .message = Answered::kRep,
                   .reason = RejectReason::kStaleConnection});
    OnStale(in.now, stale->second);
    return;
  }
  StopRequest(*connection);
  List(remote_ids_, connection->remote_id_key, id_key, connection->local_id);
  List(remote_qpns_, connection->remote_qpn_key, qpn_key, connection->local_id);
  connection->remote_id = rep.local_id;
  connection->remote_qpn = {qpn};
  connection->responder_resources = rep.initiator_depth;
  connection->initiator_depth = rep.responder_resources;
  connection->sq_psn = rep.starting_psn;
  connection->rnr_retry_count = rep.rnr_retry_count;
  connection->ack_timeout = AckTimeoutCode(rep.target_ack_delay, connection->path.packet_life_time);
  if (connection->alternate_path) {
    connection->alternate_ack_timeout =
        AckTimeoutCode(rep.target_ack_delay, connection->alternate_path->packet_life_time);
  }
  SetState(*connection, State::kRepReceived);
  Tell(EventKind::kRepReceived, *connection, in);
}

void ConnectionManager::On(const Incoming& in, const Rtu& rtu) {
  Connection* connection = FindPair(rtu.remote_id, rtu.local_id);
  if (connection == nullptr) {
    ++counters_.unmatched;
    return;
  }
  if (connection->state != State::kRepSent && connection->state != State::kMraRepReceived) {
    CountDuplicate(in);
    return;
  }
  StopRequest(*connection);
  SetState(*connection, State::kEstablished);
  Tell(EventKind::kRtuReceived, *connection, in);
}

// --- MRA

void ConnectionManager::On(const Incoming& in, const Mra& mra) {
  Connection* connection = Find(mra.remote_id);
  // The peer's id is known from its REP on.
  const bool is_first = mra.message == Answered::kReq;
  if (connection == nullptr || (!is_first && connection->remote_id != mra.local_id)) {
    ++counters_.unmatched;
    return;
  }
  if (is_first && !IsFromPeer(*connection, in)) return;
  const State state = connection->state;
  if (state == State::kReqSent && mra.message == Answered::kReq) {
    SetState(*connection, State::kMraReqReceived);
  } else if (state == State::kRepSent && mra.message == Answered::kRep) {
    SetState(*connection, State::kMraRepReceived);
  } else if (state == State::kEstablished && mra.message == Answered::kOther &&
             connection->lap_state == LapState::kSent) {
    connection->lap_state = LapState::kMraReceived;
  } else {
    CountDuplicate(in);
    return;
  }
  connection->request_timeout = PeerTimeout(mra.service_timeout, kMaxPeerServiceTimeout) +
                                PeerTimeout(connection->ack_timeout, kMaxPeerResponseTimeout);
  SetDeadline(*connection, in.now + connection->request_timeout);
  Tell(EventKind::kMraReceived, *connection, in);
}

// --- REJ

// The connection that a REJ rejects.
Connection* ConnectionManager::FindRejected(const Incoming& in, const Rej& rej) {
  if (rej.reason == RejectReason::kTimeout) {
    // The REJ is from an active side that has no answer and knows no id of ours.
    const uint64_t ca_guid = Load64(rej.additional_information.data());
    const auto found = remote_ids_.find({ca_guid, rej.local_id.value, in.gid()});
    if (found != remote_ids_.end()) return Find(found->second);
  }
  Connection* connection = Find(rej.remote_id);
  if (connection == nullptr) return nullptr;
  if (connection->remote_id == rej.local_id && connection->remote_id.value != 0) return connection;
  // A first answer: the peer's id is not known yet.
  if (connection->state != State::kReqSent && connection->state != State::kMraReqReceived) {
    return nullptr;
  }
  return IsFromPeer(*connection, in) ? connection : nullptr;
}

void ConnectionManager::On(const Incoming& in, const Rej& rej) {
  Connection* connection = FindRejected(in, rej);
  if (connection == nullptr) {
    ++counters_.unmatched;
    return;
  }
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
      if (rej.reason == RejectReason::kStaleConnection) {
        EnterTimewait(in.now, *connection);
      } else {
        GoIdle(*connection);
      }
      break;
    case State::kEstablished:
      // In the other states of a LAP only its path can be refused, by an APR.
      if (connection->lap_state != LapState::kNone && connection->lap_state != LapState::kSent) {
        ++counters_.unmatched;
        return;
      }
      EnterTimewait(in.now, *connection);
      break;
    case State::kDreqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      EnterTimewait(in.now, *connection);
      break;
    default:
      ++counters_.unmatched;
      return;
  }
  Tell(EventKind::kRejReceived, *connection, in);
}

// --- DREQ and DREP

void ConnectionManager::On(const Incoming& in, const Dreq& dreq) {
  Connection* connection = FindPair(dreq.remote_id, dreq.local_id);
  if (connection == nullptr || connection->state == State::kIdle) {
    // The connection is over here: tells the peer, which otherwise repeats its DREQ.
    CountDuplicate(in);
    Refuse(in, Drep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
    return;
  }
  if (connection->local_qpn != dreq.remote_qpn) {
    ++counters_.unmatched;
    return;
  }
  switch (connection->state) {
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
    case State::kDreqSent:
      break;
    case State::kTimewait:
      CountDuplicate(in);
      if (connection->answer_kind == Attribute::kDrep) {
        RepeatAnswer(*connection, Attribute::kDrep, in);
      } else {
        Refuse(in, Drep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
      }
      return;
    case State::kDreqReceived:
      CountDuplicate(in);
      return;
    default:
      ++counters_.unmatched;
      return;
  }
  StopRequest(*connection);
  connection->transaction_id = in.mad.header.transaction_id;
  SetState(*connection, State::kDreqReceived);
  Tell(EventKind::kDreqReceived, *connection, in);
  // The user of an orphaned connection cannot answer.
  if (connection->is_orphaned) {
    SendAnswer(*connection, Drep{.local_id = connection->local_id, .remote_id = dreq.local_id});
    EnterTimewait(in.now, *connection);
  }
}

void ConnectionManager::On(const Incoming& in, const Drep& drep) {
  Connection* connection = FindPair(drep.remote_id, drep.local_id);
  if (connection == nullptr ||
      (connection->state != State::kDreqSent && connection->state != State::kDreqReceived)) {
    ++counters_.unmatched;
    return;
  }
  EnterTimewait(in.now, *connection);
  Tell(EventKind::kDrepReceived, *connection, in);
}

}  // namespace uroce::transport::cm
