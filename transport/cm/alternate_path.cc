// Loading an alternate path into an established connection.
#include <utility>

#include "transport/cm/connection_manager.h"
#include "transport/cm/path_fields.h"
#include "transport/cm/private_data.h"

namespace uroce::transport::cm {
namespace {

constexpr uint8_t kPathLoaded = 0;
// The default of a REQ (ConnectParameters), too: 4.3 s, like Linux.
constexpr uint8_t kResponseTimeout = 20;

bool CanOffer(LapState state) { return state == LapState::kNone || state == LapState::kIdle; }

}  // namespace

Status ConnectionManager::LoadAlternatePath(Time now, CommunicationId id, const Path& path,
                                            Bytes private_data) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      !CanOffer(connection->lap_state) || path.mtu != connection->path.mtu ||
      path.pkey != connection->path.pkey) {
    return Status::kInvalidArgument;
  }
  Lap lap{.local_id = id,
          .remote_id = connection->remote_id,
          .remote_qpn = connection->remote_qpn,
          .remote_cm_response_timeout = kResponseTimeout,
          .alternate = FieldsOf(path, config_.ack_delay)};
  if (!Put(private_data, lap.private_data)) return Status::kInvalidArgument;
  connection->offered_path = path;
  connection->lap_state = LapState::kSent;
  StartRequest(now, *connection, lap, NewTransactionId(*connection));
  return Status::kOk;
}

void ConnectionManager::On(const Incoming& in, const Lap& lap) {
  Connection* connection = FindPair(lap.remote_id, lap.local_id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      connection->local_qpn != lap.remote_qpn) {
    ++counters_.unmatched;
    return;
  }
  switch (connection->lap_state) {
    case LapState::kNone:
    case LapState::kIdle:
      break;
    case LapState::kMraSent:
      CountDuplicate(in);
      RepeatAnswer(*connection, Attribute::kMra, in);
      return;
    default:  // a duplicate, or one that crosses our own
      CountDuplicate(in);
      return;
  }
  connection->offered_path =
      PathOf(lap.alternate, in.source, connection->path.pkey, connection->path.mtu);
  connection->lap_state = LapState::kReceived;
  connection->transaction_id = in.mad.header.transaction_id;
  Tell(EventKind::kLapReceived, *connection, in);
}

Status ConnectionManager::AnswerAlternatePath(CommunicationId id,
                                              const AlternatePathAnswer& answer) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      (connection->lap_state != LapState::kReceived &&
       connection->lap_state != LapState::kMraSent)) {
    return Status::kInvalidArgument;
  }
  Apr apr{.local_id = id,
          .remote_id = connection->remote_id,
          .information_bytes = static_cast<uint8_t>(answer.information.size()),
          .status = answer.status};
  if (!Put(answer.information, apr.additional_information) ||
      !Put(answer.private_data, apr.private_data)) {
    return Status::kInvalidArgument;
  }
  connection->lap_state = LapState::kIdle;
  if (answer.status == kPathLoaded) {
    connection->alternate_path = connection->offered_path;
    connection->alternate_ack_timeout =
        static_cast<uint8_t>(connection->alternate_path->packet_life_time + 1);
  }
  // If the APR is lost, the peer repeats the LAP, which then counts as a new one.
  SendAnswer(*connection, apr);
  return Status::kOk;
}

void ConnectionManager::On(const Incoming& in, const Apr& apr) {
  Connection* connection = FindPair(apr.remote_id, apr.local_id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      (connection->lap_state != LapState::kSent &&
       connection->lap_state != LapState::kMraReceived)) {
    ++counters_.unmatched;
    return;
  }
  StopRequest(*connection);
  connection->lap_state = LapState::kIdle;
  if (apr.status == kPathLoaded) {
    connection->alternate_path = connection->offered_path;
    connection->alternate_ack_timeout =
        AckTimeoutCode(config_.ack_delay, connection->alternate_path->packet_life_time);
  }
  Tell(EventKind::kAprReceived, *connection, in);
}

Status ConnectionManager::PathMigrated(CommunicationId id) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kEstablished ||
      !CanOffer(connection->lap_state) || !connection->alternate_path) {
    return Status::kInvalidArgument;
  }
  connection->lap_state = LapState::kIdle;
  std::swap(connection->path, *connection->alternate_path);
  std::swap(connection->ack_timeout, connection->alternate_ack_timeout);
  connection->peer = {.path = connection->path.address, .pkey_index = connection->path.pkey_index};
  return Status::kOk;
}

}  // namespace uroce::transport::cm
