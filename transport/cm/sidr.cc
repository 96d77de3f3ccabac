// Service id resolution: how datagram services find each other's queue pair.
#include "transport/cm/connection_manager.h"
#include "transport/cm/limits.h"
#include "transport/cm/private_data.h"

namespace uroce::transport::cm {

Status ConnectionManager::Resolve(Time now, CommunicationId id,
                                  const ResolveParameters& parameters) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->is_used) return Status::kInvalidArgument;
  SidrReq request{
      .request_id = id, .partition_key = parameters.path.pkey, .service_id = parameters.service_id};
  if (!Put(parameters.private_data, request.private_data)) return Status::kInvalidArgument;
  connection->is_used = true;
  connection->service_id = parameters.service_id;
  connection->peer = {.path = parameters.path.address, .pkey_index = parameters.path.pkey_index};
  connection->path = parameters.path;
  connection->max_cm_retries = parameters.max_cm_retries & 15;
  connection->response_timeout = parameters.timeout;
  SetState(*connection, State::kSidrReqSent);
  StartRequest(now, *connection, request, NewTransactionId(*connection));
  return Status::kOk;
}

void ConnectionManager::On(const Incoming& in, const SidrReq& request) {
  const PeerKey key{0, request.request_id.value, in.gid()};
  if (resolutions_.contains(key)) {
    CountDuplicate(in);
    return;
  }
  const Connection* listener = FindListener(request.service_id);
  if (listener == nullptr) {
    Refuse(in, SidrRep{.request_id = request.request_id,
                       .status = SidrStatus::kUnsupportedService,
                       .service_id = request.service_id});
    return;
  }
  Connection* connection = CreateIncoming(in, *listener);
  if (connection == nullptr) return;
  connection->is_used = true;
  connection->remote_id = request.request_id;
  connection->service_id = request.service_id;
  connection->peer = in.source;
  List(resolutions_, connection->remote_id_key, key, connection->local_id);
  SetState(*connection, State::kSidrReqReceived);
  Tell(EventKind::kSidrReqReceived, *connection, in, listener->local_id);
}

Status ConnectionManager::AnswerResolution(CommunicationId id,
                                           const ResolutionParameters& parameters) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kSidrReqReceived) {
    return Status::kInvalidArgument;
  }
  SidrRep reply{.request_id = connection->remote_id,
                .status = parameters.status,
                .information_bytes = static_cast<uint8_t>(parameters.information.size()),
                .qpn = parameters.qpn,
                .service_id = connection->service_id,
                .qkey = parameters.qkey};
  if (!Put(parameters.information, reply.additional_information) ||
      !Put(parameters.private_data, reply.private_data)) {
    return Status::kInvalidArgument;
  }
  SendAnswer(*connection, reply);
  // If the SIDR_REP is lost, the peer repeats the request, which then counts as a new one.
  Unlist(resolutions_, connection->remote_id_key);
  GoIdle(*connection);
  return Status::kOk;
}

void ConnectionManager::On(const Incoming& in, const SidrRep& reply) {
  Connection* connection = Find(reply.request_id);
  if (connection == nullptr || connection->state != State::kSidrReqSent) {
    ++counters_.unmatched;
    return;
  }
  if (!IsFromPeer(*connection, in)) return;
  GoIdle(*connection);
  Tell(EventKind::kSidrRepReceived, *connection, in);
}

}  // namespace uroce::transport::cm
