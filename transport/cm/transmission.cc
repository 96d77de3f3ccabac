// Sending, repeating and giving up messages; the timewait.
#include <algorithm>
#include <vector>

#include "transport/cm/connection_manager.h"
#include "transport/cm/limits.h"
#include "transport/cm/timeouts.h"

namespace uroce::transport::cm {

std::optional<OutgoingMad> ConnectionManager::PollTransmit() {
  if (outbox_.empty()) return std::nullopt;
  OutgoingMad mad = std::move(outbox_.front());
  outbox_.pop_front();
  return mad;
}

void ConnectionManager::Transmit(const MadBytes& mad, const MadAddress& destination, size_t limit) {
  if (outbox_.size() >= limit) {
    ++counters_.transmit_full;
    return;
  }
  const auto attribute = static_cast<Attribute>(ParseMadHeader(mad.data()).attribute_id);
  ++counters_.transmitted[IndexOf(attribute)];
  outbox_.push_back({mad, destination});
}

uint64_t ConnectionManager::NewTransactionId(const Connection& connection) {
  return random_.Next() << 32 | connection.local_id.value;
}

void ConnectionManager::StartRequest(Time now, Connection& connection, const Message& message,
                                     uint64_t transaction_id) {
  connection.request = EmitMessage(transaction_id, message);
  connection.request_timeout = connection.response_timeout;
  connection.retries_left = connection.max_cm_retries;
  Transmit(connection.request, connection.peer, kMaxQueuedMads);
  SetDeadline(connection, now + connection.request_timeout);
}

// An answer is sent once, and again for each duplicate of the message it answers.
void ConnectionManager::KeepAnswer(Connection& connection, const Message& message) {
  connection.answer = EmitMessage(connection.transaction_id, message);
  connection.answer_kind = AttributeOf(message);
}

void ConnectionManager::SendAnswer(Connection& connection, const Message& message) {
  KeepAnswer(connection, message);
  Transmit(connection.answer, connection.peer, kMaxQueuedMads);
}

void ConnectionManager::RepeatAnswer(const Connection& connection, Attribute kind,
                                     const Incoming& in) {
  if (connection.answer_kind != kind) return;
  ++counters_.retries[IndexOf(kind)];
  Transmit(connection.answer, in.source, kMaxQueuedMads);
}

// An answer that belongs to no connection.
void ConnectionManager::Refuse(const Incoming& in, const Message& message) {
  Transmit(EmitMessage(in.mad.header.transaction_id, message), in.source, kMaxQueuedRefusals);
}

void ConnectionManager::RefuseRequest(const Incoming& in, const Req& req, RejectReason reason) {
  Refuse(in, Rej{.local_id = no_id_,
                 .remote_id = req.local_id,
                 .message = Answered::kReq,
                 .reason = reason});
}

// --- time

void ConnectionManager::SetDeadline(Connection& connection, Time deadline) {
  if (connection.is_orphaned && connection.state == State::kTimewait) {
    orphans_in_timewait_.erase({connection.deadline, connection.local_id});
  }
  if (connection.deadline != kNever) deadlines_.erase({connection.deadline, connection.local_id});
  connection.deadline = deadline;
  if (deadline == kNever) return;
  deadlines_.emplace(deadline, connection.local_id);
  if (connection.is_orphaned && connection.state == State::kTimewait) {
    orphans_in_timewait_.emplace(deadline, connection.local_id);
  }
}

// Lists the due ids first: a deadline that is set meanwhile is for the next call, even if it is
// past already.
void ConnectionManager::OnDeadline(Time now) {
  std::vector<CommunicationId> due;
  for (const auto& [deadline, id] : deadlines_) {
    if (deadline > now) break;
    due.push_back(id);
  }
  for (const CommunicationId id : due) {
    Connection* connection = Find(id);
    if (connection != nullptr && connection->deadline <= now) RunDeadline(now, *connection);
  }
}

void ConnectionManager::RunDeadline(Time now, Connection& connection) {
  if (connection.state == State::kTimewait) {
    LeaveTimewait(connection);
    return;
  }
  if (connection.retries_left == 0) {
    GiveUp(now, connection);
    return;
  }
  --connection.retries_left;
  const MadHeader header = ParseMadHeader(connection.request.data());
  ++counters_.retries[IndexOf(static_cast<Attribute>(header.attribute_id))];
  Transmit(connection.request, connection.peer, kMaxQueuedMads);
  SetDeadline(connection, now + connection.request_timeout);
}

void ConnectionManager::GiveUp(Time now, Connection& connection) {
  StopRequest(connection);
  switch (connection.state) {
    case State::kReqSent:
    case State::kMraReqReceived:
      GoIdle(connection);
      Tell(EventKind::kReqError, connection);
      return;
    case State::kRepSent:
    case State::kMraRepReceived:
      GoIdle(connection);
      Tell(EventKind::kRepError, connection);
      return;
    case State::kDreqSent:
      EnterTimewait(now, connection);
      Tell(EventKind::kDreqError, connection);
      return;
    case State::kSidrReqSent:
      GoIdle(connection);
      Tell(EventKind::kSidrReqError, connection);
      return;
    default:  // a LAP of an established connection
      connection.lap_state = LapState::kIdle;
      Tell(EventKind::kLapError, connection);
      return;
  }
}

// --- ends

// Packets of the connection may still be under way: id and queue pair are not used again before
// they are gone. The peer may connect its queue pair anew.
void ConnectionManager::EnterTimewait(Time now, Connection& connection) {
  Unlist(remote_qpns_, connection.remote_qpn_key);
  SetDeadline(connection, kNever);
  SetState(connection, State::kTimewait);
  const uint8_t code = std::min(connection.ack_timeout, kMaxTimewait);
  SetDeadline(connection, now + DurationOf(code));
}

void ConnectionManager::LeaveTimewait(Connection& connection) {
  SetDeadline(connection, kNever);
  if (connection.is_orphaned) {
    Erase(connection);
    return;
  }
  GoIdle(connection);
  Tell(EventKind::kTimewaitExit, connection);
}

void ConnectionManager::GoIdle(Connection& connection) {
  SetDeadline(connection, kNever);
  Unlist(remote_ids_, connection.remote_id_key);
  Unlist(remote_qpns_, connection.remote_qpn_key);
  SetState(connection, State::kIdle);
}

}  // namespace uroce::transport::cm
