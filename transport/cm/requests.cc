// The calls of users: to connect, accept, reject and disconnect.
#include "transport/cm/connection_manager.h"
#include "transport/cm/path_fields.h"
#include "transport/cm/private_data.h"
#include "transport/cm/timeouts.h"

namespace uroce::transport::cm {
namespace {

// RC, UC, RD, and "extended", of which there is XRC.
constexpr uint8_t kTypeRc = 0;
constexpr uint8_t kTypeUc = 1;
constexpr uint8_t kTypeExtended = 3;
constexpr uint8_t kExtendedXrc = 1;

uint8_t TransportServiceType(TransportService service) {
  switch (service) {
    case TransportService::kReliableConnection:
      return kTypeRc;
    case TransportService::kUnreliableConnection:
      return kTypeUc;
    case TransportService::kXrc:
      return kTypeExtended;
  }
  return kTypeRc;
}

Req RequestOf(const Config& config, const ConnectParameters& parameters) {
  const Path& path = parameters.path;
  const bool is_xrc = parameters.service == TransportService::kXrc;
  Req req{.service_id = parameters.service_id,
          .local_ca_guid = config.ca_guid,
          .local_qpn = parameters.qpn,
          .initiator_depth = parameters.initiator_depth,
          .remote_cm_response_timeout = parameters.remote_cm_response_timeout,
          .transport_service_type = TransportServiceType(parameters.service),
          .end_to_end_flow_control = parameters.flow_control,
          .starting_psn = parameters.starting_psn,
          .local_cm_response_timeout = parameters.local_cm_response_timeout,
          .partition_key = path.pkey,
          .path_mtu = static_cast<uint8_t>(path.mtu),
          .max_cm_retries = parameters.max_cm_retries,
          .extended_transport_type = is_xrc ? kExtendedXrc : uint8_t{0},
          .primary = FieldsOf(path, config.ack_delay)};
  // An XRC initiator receives nothing.
  if (!is_xrc) {
    req.responder_resources = parameters.responder_resources;
    req.retry_count = parameters.retry_count;
    req.rnr_retry_count = parameters.rnr_retry_count;
    req.srq = parameters.srq;
  }
  if (parameters.alternate_path) {
    req.alternate = FieldsOf(*parameters.alternate_path, config.ack_delay);
  }
  return req;
}

bool IsConnectable(const ConnectParameters& parameters) {
  const auto& alternate = parameters.alternate_path;
  return !alternate ||
         (alternate->pkey == parameters.path.pkey && alternate->mtu == parameters.path.mtu);
}

Answered RejectedIn(State state) {
  switch (state) {
    case State::kReqReceived:
    case State::kMraReqSent:
      return Answered::kReq;
    case State::kRepReceived:
    case State::kMraRepSent:
      return Answered::kRep;
    default:
      return Answered::kOther;
  }
}

}  // namespace

Status ConnectionManager::Connect(Time now, CommunicationId id,
                                  const ConnectParameters& parameters) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->is_used || !IsConnectable(parameters)) {
    return Status::kInvalidArgument;
  }
  Req req = RequestOf(config_, parameters);
  req.local_id = id;
  if (!Put(parameters.private_data, req.private_data)) return Status::kInvalidArgument;

  const Path& path = parameters.path;
  connection->is_used = true;
  connection->service_id = parameters.service_id;
  connection->peer = {.path = path.address, .pkey_index = path.pkey_index};
  connection->service = parameters.service;
  connection->local_qpn = parameters.qpn;
  connection->rq_psn = parameters.starting_psn;
  connection->path = path;
  connection->ack_timeout = static_cast<uint8_t>(path.packet_life_time + 1);
  connection->alternate_path = parameters.alternate_path;
  if (parameters.alternate_path) {
    connection->alternate_ack_timeout =
        static_cast<uint8_t>(parameters.alternate_path->packet_life_time + 1);
  }
  connection->responder_resources = parameters.responder_resources;
  connection->initiator_depth = parameters.initiator_depth;
  connection->retry_count = parameters.retry_count;
  connection->rnr_retry_count = parameters.rnr_retry_count;
  connection->max_cm_retries = parameters.max_cm_retries & 15;
  connection->response_timeout =
      DurationOf(path.packet_life_time) * 2 + DurationOf(parameters.remote_cm_response_timeout);
  connection->transaction_id = NewTransactionId(*connection);
  SetState(*connection, State::kReqSent);
  StartRequest(now, *connection, req, connection->transaction_id);
  return Status::kOk;
}

Status ConnectionManager::Accept(Time now, CommunicationId id, const AcceptParameters& parameters) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr ||
      (connection->state != State::kReqReceived && connection->state != State::kMraReqSent)) {
    return Status::kInvalidArgument;
  }
  Rep rep{.local_id = id,
          .remote_id = connection->remote_id,
          .starting_psn = parameters.starting_psn,
          .responder_resources = parameters.responder_resources,
          .target_ack_delay = config_.ack_delay,
          .failover_accepted = parameters.failover_accepted,
          .rnr_retry_count = parameters.rnr_retry_count,
          .local_ca_guid = config_.ca_guid};
  if (connection->service == TransportService::kXrc) {
    rep.local_eecn = parameters.qpn.value;
    rep.srq = true;
  } else {
    rep.local_qpn = parameters.qpn;
    rep.initiator_depth = parameters.initiator_depth;
    rep.end_to_end_flow_control = parameters.flow_control;
    rep.srq = parameters.srq;
  }
  if (!Put(parameters.private_data, rep.private_data)) return Status::kInvalidArgument;

  connection->local_qpn = parameters.qpn;
  connection->rq_psn = parameters.starting_psn;
  connection->responder_resources = parameters.responder_resources;
  connection->initiator_depth = parameters.initiator_depth;
  SetState(*connection, State::kRepSent);
  StartRequest(now, *connection, rep, connection->transaction_id);
  return Status::kOk;
}

Status ConnectionManager::ConfirmReady(CommunicationId id, Bytes private_data) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr ||
      (connection->state != State::kRepReceived && connection->state != State::kMraRepSent)) {
    return Status::kInvalidArgument;
  }
  Rtu rtu{.local_id = id, .remote_id = connection->remote_id};
  if (!Put(private_data, rtu.private_data)) return Status::kInvalidArgument;
  SetState(*connection, State::kEstablished);
  SendAnswer(*connection, rtu);
  return Status::kOk;
}

Status ConnectionManager::CommunicationEstablished(CommunicationId id) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr ||
      (connection->state != State::kRepSent && connection->state != State::kMraRepReceived)) {
    return Status::kInvalidArgument;
  }
  StopRequest(*connection);
  SetState(*connection, State::kEstablished);
  Tell(EventKind::kUserEstablished, *connection);
  return Status::kOk;
}

Status ConnectionManager::Reject(Time now, CommunicationId id, const RejectParameters& parameters) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr) return Status::kInvalidArgument;
  Rej rej{.local_id = connection->state == State::kReqReceived ? no_id_ : id,
          .remote_id = connection->remote_id,
          .message = RejectedIn(connection->state),
          .information_bytes = static_cast<uint8_t>(parameters.information.size()),
          .reason = parameters.reason};
  if (!Put(parameters.information, rej.additional_information) ||
      !Put(parameters.private_data, rej.private_data)) {
    return Status::kInvalidArgument;
  }
  switch (connection->state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
      SendAnswer(*connection, rej);
      GoIdle(*connection);
      return Status::kOk;
    case State::kRepSent:
    case State::kMraRepReceived:
      SendAnswer(*connection, rej);
      EnterTimewait(now, *connection);
      return Status::kOk;
    default:
      return Status::kInvalidArgument;
  }
}

Status ConnectionManager::AcknowledgeReceipt(CommunicationId id, uint8_t service_timeout,
                                             Bytes private_data, bool at_duplicate) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || service_timeout > 31) return Status::kInvalidArgument;
  Mra mra{.local_id = id, .remote_id = connection->remote_id, .service_timeout = service_timeout};
  if (!Put(private_data, mra.private_data)) return Status::kInvalidArgument;
  if (connection->state == State::kReqReceived) {
    mra.message = Answered::kReq;
    SetState(*connection, State::kMraReqSent);
  } else if (connection->state == State::kRepReceived) {
    mra.message = Answered::kRep;
    SetState(*connection, State::kMraRepSent);
  } else if (connection->state == State::kEstablished &&
             connection->lap_state == LapState::kReceived) {
    mra.message = Answered::kOther;
    connection->lap_state = LapState::kMraSent;
  } else {
    return Status::kInvalidArgument;
  }
  at_duplicate ? KeepAnswer(*connection, mra) : SendAnswer(*connection, mra);
  return Status::kOk;
}

Status ConnectionManager::Disconnect(Time now, CommunicationId id, Bytes private_data) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      private_data.size() > std::tuple_size_v<decltype(Dreq::private_data)>) {
    return Status::kInvalidArgument;
  }
  BeginDisconnect(now, *connection, private_data);
  return Status::kOk;
}

void ConnectionManager::BeginDisconnect(Time now, Connection& connection, Bytes private_data) {
  Dreq dreq{.local_id = connection.local_id,
            .remote_id = connection.remote_id,
            .remote_qpn = connection.remote_qpn};
  (void)Put(private_data, dreq.private_data);
  SetState(connection, State::kDreqSent);
  StartRequest(now, connection, dreq, NewTransactionId(connection));
}

Status ConnectionManager::ConfirmDisconnect(Time now, CommunicationId id, Bytes private_data) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kDreqReceived) {
    return Status::kInvalidArgument;
  }
  Drep drep{.local_id = id, .remote_id = connection->remote_id};
  if (!Put(private_data, drep.private_data)) return Status::kInvalidArgument;
  SendAnswer(*connection, drep);
  EnterTimewait(now, *connection);
  return Status::kOk;
}

}  // namespace uroce::transport::cm
