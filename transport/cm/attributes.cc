// The attributes to modify a queue pair with: ib_cm_init_qp_attr of Linux.
#include "transport/access.h"
#include "transport/cm/connection_manager.h"

namespace uroce::transport::cm {
namespace {

using Mask = QpAttributeMask;

bool HasConnection(State state) {
  switch (state) {
    case State::kReqSent:
    case State::kMraReqReceived:
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kRepSent:
    case State::kMraRepReceived:
    case State::kEstablished:
      return true;
    default:
      return false;
  }
}

// Whether the peer's queue pair is known.
bool HasPeer(State state) {
  return HasConnection(state) && state != State::kReqSent && state != State::kMraReqReceived;
}

// Whether the queue pair answers requests, and whether it sends requests that are answered: an XRC
// queue pair does one of the two.
bool Answers(const Connection& connection) {
  const bool is_target = connection.service == TransportService::kXrc && connection.was_asked_for;
  return connection.service == TransportService::kReliableConnection || is_target;
}
bool AsksAgain(const Connection& connection) {
  const bool is_initiator =
      connection.service == TransportService::kXrc && !connection.was_asked_for;
  return connection.service == TransportService::kReliableConnection || is_initiator;
}

void SetAlternatePath(const Connection& connection, QpAttributes& attributes, uint32_t& mask) {
  mask |= Mask::kAlternatePath;
  attributes.alternate_address = connection.alternate_path->address;
  attributes.alternate_port_num = connection.alternate_path->address.port_num;
  attributes.alternate_pkey_index = connection.alternate_path->pkey_index;
  attributes.alternate_timeout = connection.alternate_ack_timeout;
}

void ForInit(const Connection& connection, QpAttributes& attributes, uint32_t& mask) {
  mask = Mask::kState | Mask::kAccessFlags | Mask::kPkeyIndex | Mask::kPort;
  uint32_t access = AccessFlags::kRemoteWrite;
  if (connection.responder_resources > 0) {
    access |= AccessFlags::kRemoteRead | AccessFlags::kRemoteAtomic;
  }
  attributes.access = AccessFlags(access);
  attributes.pkey_index = connection.path.pkey_index;
  attributes.port_num = connection.path.address.port_num;
}

void ForReceive(const Connection& connection, QpAttributes& attributes, uint32_t& mask) {
  mask =
      Mask::kState | Mask::kAddressVector | Mask::kPathMtu | Mask::kDestinationQpn | Mask::kRqPsn;
  attributes.address = connection.path.address;
  attributes.path_mtu = connection.path.mtu;
  attributes.destination_qpn = connection.remote_qpn;
  attributes.rq_psn = connection.rq_psn;
  if (Answers(connection)) {
    mask |= Mask::kMaxDestReadAtomic | Mask::kMinRnrTimer;
    attributes.max_dest_read_atomic = connection.responder_resources;
    attributes.min_rnr_timer = 0;
  }
  if (connection.alternate_path) SetAlternatePath(connection, attributes, mask);
}

void ForSend(const Connection& connection, QpAttributes& attributes, uint32_t& mask) {
  if (connection.lap_state != LapState::kNone) {
    // The queue pair is in RTS already: only the path is new.
    mask = Mask::kMigrationState;
    attributes.migration_state = MigrationState::kRearm;
    if (connection.alternate_path) SetAlternatePath(connection, attributes, mask);
    return;
  }
  mask = Mask::kState | Mask::kSqPsn;
  attributes.sq_psn = connection.sq_psn;
  if (AsksAgain(connection)) {
    mask |= Mask::kRetryCount | Mask::kRnrRetry | Mask::kMaxReadAtomic;
    attributes.retry_count = connection.retry_count;
    attributes.rnr_retry = connection.rnr_retry_count;
    attributes.max_read_atomic = connection.initiator_depth;
  }
  if (AsksAgain(connection) || Answers(connection)) {  // of an XRC target, too
    mask |= Mask::kTimeout;
    attributes.timeout = connection.ack_timeout;
  }
  if (connection.alternate_path) {
    mask |= Mask::kMigrationState;
    attributes.migration_state = MigrationState::kRearm;
  }
}

}  // namespace

Status ConnectionManager::Attributes(CommunicationId id, QpState state, QpAttributes& attributes,
                                     uint32_t& mask) const {
  const Connection* connection = FindOwned(id);
  if (connection == nullptr) return Status::kInvalidArgument;
  const bool is_possible =
      state == QpState::kInit ? HasConnection(connection->state) : HasPeer(connection->state);
  if (!is_possible) return Status::kInvalidArgument;
  switch (state) {
    case QpState::kInit:
      ForInit(*connection, attributes, mask);
      break;
    case QpState::kReadyToReceive:
      ForReceive(*connection, attributes, mask);
      break;
    case QpState::kReadyToSend:
      ForSend(*connection, attributes, mask);
      break;
    default:
      return Status::kInvalidArgument;
  }
  attributes.state = state;
  return Status::kOk;
}

}  // namespace uroce::transport::cm
