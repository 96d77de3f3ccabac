// Ids, listeners, and the tables by which peers are recognised.
#include "transport/cm/connection_manager.h"

#include <algorithm>
#include <array>

#include "transport/cm/limits.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

constexpr uint8_t kIdStream = 0x43;  // of the random numbers of the seed
constexpr uint64_t kAssignedServiceSpread = 0xff'ffff'ffff;

}  // namespace

ConnectionManager::ConnectionManager(const Config& config, Counters* counters)
    : config_(config),
      random_(config.seed, kIdStream),
      next_assigned_service_(kAssignServiceId.value + 1 +
                             (random_.Next() & kAssignedServiceSpread)),
      counters_(counters == nullptr ? own_counters_ : *counters) {
  config_.max_ids = std::min(config_.max_ids, kMaxIds);
  config_.id_prefix_bits = std::clamp(config_.id_prefix_bits, 0, 16);
  const int free_bits = 32 - config_.id_prefix_bits;
  no_id_.value = static_cast<uint32_t>(uint64_t{config_.id_prefix} << free_bits);
}

// --- ids

// Draws random ids until one is free. At least half of all ids are free, so a few draws suffice.
Connection* ConnectionManager::CreateConnection() {
  if (connections_.size() >= config_.max_ids) MakeRoomForId();
  if (connections_.size() >= config_.max_ids) return nullptr;
  const int free_bits = 32 - config_.id_prefix_bits;
  const uint64_t space = uint64_t{1} << free_bits;
  if (connections_.size() >= space / 2) return nullptr;
  uint32_t id = 0;
  do {
    id = no_id_.value | static_cast<uint32_t>(random_.Next() & (space - 1));
  } while (id == no_id_.value || connections_.contains(id));
  auto connection = std::make_unique<Connection>();
  connection->local_id = {id};
  return connections_.emplace(id, std::move(connection)).first->second.get();
}

// Ends the timewait of an orphaned connection, the one nearest to its end.
void ConnectionManager::MakeRoomForId() {
  if (orphans_in_timewait_.empty()) return;
  ++counters_.timewait_cut;
  LeaveTimewait(*Find(orphans_in_timewait_.begin()->second));
}

std::optional<CommunicationId> ConnectionManager::Create() {
  const Connection* connection = CreateConnection();
  if (connection == nullptr) return std::nullopt;
  return connection->local_id;
}

Connection* ConnectionManager::Find(CommunicationId id) const {
  const auto found = connections_.find(id.value);
  return found == connections_.end() ? nullptr : found->second.get();
}

Connection* ConnectionManager::FindOwned(CommunicationId id) const {
  Connection* connection = Find(id);
  return connection == nullptr || connection->is_orphaned ? nullptr : connection;
}

// Both ids have to match: a message that is left over from an earlier connection finds none.
Connection* ConnectionManager::FindPair(CommunicationId local, CommunicationId remote) const {
  Connection* connection = Find(local);
  if (connection == nullptr || connection->remote_id != remote) return nullptr;
  return connection->state == State::kListening ? nullptr : connection;
}

std::optional<State> ConnectionManager::StateOf(CommunicationId id) const {
  const Connection* connection = FindOwned(id);
  if (connection == nullptr) return std::nullopt;
  return connection->state;
}

void ConnectionManager::Erase(Connection& connection) {
  GoIdle(connection);
  connections_.erase(connection.local_id.value);
}

void ConnectionManager::Destroy(Time now, CommunicationId id) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr) return;
  std::erase_if(events_, [id](const Event& event) { return event.id == id; });
  Release(now, *connection);
}

void ConnectionManager::Abandon(Time now, CommunicationId id) {
  Connection* connection = FindOwned(id);
  if (connection != nullptr && IsHalfOpen(connection->state)) {
    if (connection->state == State::kSidrReqReceived) {
      Unlist(resolutions_, connection->remote_id_key);
    }
    GoIdle(*connection);
  }
  Destroy(now, id);
}

// The user has destroyed the id: sends the peer what is due then (ib_destroy_cm_id of Linux).
void ConnectionManager::Release(Time now, Connection& connection) {
  const CommunicationId id = connection.local_id;
  switch (connection.state) {
    case State::kListening:
      listeners_.erase({connection.service_mask, connection.service_id.value});
      break;
    case State::kSidrReqReceived:
      (void)AnswerResolution(id, {.status = SidrStatus::kRejected});
      break;
    case State::kReqSent:
    case State::kMraReqReceived: {
      // The peer finds its half of the connection by our GUID: it has not told us its id.
      std::array<uint8_t, 8> guid;
      Store64(config_.ca_guid, guid.data());
      (void)Reject(now, id, {.reason = RejectReason::kTimeout, .information = guid});
      break;
    }
    case State::kReqReceived:
    case State::kMraReqSent:
    case State::kRepReceived:
    case State::kMraRepSent:
    case State::kRepSent:
    case State::kMraRepReceived:
      (void)Reject(now, id, {.reason = RejectReason::kConsumerDefined});
      break;
    case State::kEstablished:
      (void)Disconnect(now, id, {});
      break;
    case State::kDreqReceived:
      (void)ConfirmDisconnect(now, id, {});
      break;
    default:
      break;
  }
  if (connection.state != State::kDreqSent && connection.state != State::kTimewait) {
    Erase(connection);
    return;
  }
  connection.is_orphaned = true;
  Unlist(remote_qpns_, connection.remote_qpn_key);
  if (connection.state == State::kTimewait) {
    orphans_in_timewait_.emplace(connection.deadline, id);
  }
}

// --- listeners

Status ConnectionManager::Listen(CommunicationId id, ServiceId service_id, uint64_t mask,
                                 uint32_t backlog) {
  Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->is_used) return Status::kInvalidArgument;
  if (service_id == kAssignServiceId) {
    service_id.value = next_assigned_service_++;
    mask = kExactServiceMask;
  } else if ((service_id.value & kAssignedServiceMask) == kAssignServiceId.value) {
    return Status::kInvalidArgument;
  }
  service_id.value &= mask;
  // Two listeners exclude each other if some service id matches both.
  for (auto other = listeners_.begin(); other != listeners_.end();) {
    const auto [other_mask, other_id] = other->first;
    if ((mask & other_mask) == other_mask) {  // checks all listeners of this mask
      if (listeners_.contains({other_mask, service_id.value & other_mask})) return Status::kBusy;
      other = listeners_.upper_bound({other_mask, UINT64_MAX});
      continue;
    }
    if (((service_id.value ^ other_id) & mask & other_mask) == 0) return Status::kBusy;
    ++other;
  }
  listeners_[{mask, service_id.value}] = id;
  connection->is_used = true;
  connection->service_id = service_id;
  connection->service_mask = mask;
  connection->backlog = backlog == 0 ? kDefaultBacklog : backlog;
  connection->unanswered = std::make_shared<uint32_t>(0);
  SetState(*connection, State::kListening);
  return Status::kOk;
}

std::optional<ServiceId> ConnectionManager::ListeningOn(CommunicationId id) const {
  const Connection* connection = FindOwned(id);
  if (connection == nullptr || connection->state != State::kListening) return std::nullopt;
  return connection->service_id;
}

Connection* ConnectionManager::FindListener(ServiceId service_id) const {
  for (auto at = listeners_.begin(); at != listeners_.end();) {
    const uint64_t mask = at->first.first;
    const auto found = listeners_.find({mask, service_id.value & mask});
    if (found != listeners_.end()) return Find(found->second);
    at = listeners_.upper_bound({mask, UINT64_MAX});
  }
  return nullptr;
}

// --- limits on what peers make us keep

bool ConnectionManager::HasRoomFor(const Connection& listener, const Gid& gid) {
  if (*listener.unanswered >= listener.backlog) {
    ++counters_.backlog_full;
    return false;
  }
  const auto of_peer = half_open_of_.find(gid);
  const uint32_t peer_count = of_peer == half_open_of_.end() ? 0 : of_peer->second;
  if (half_open_ >= kMaxHalfOpen || peer_count >= kMaxHalfOpenPerPeer) {
    ++counters_.half_open_full;
    return false;
  }
  return true;
}

Connection* ConnectionManager::CreateIncoming(const Incoming& in, const Connection& listener) {
  if (!HasRoomFor(listener, in.gid())) return nullptr;
  Connection* connection = CreateConnection();
  if (connection == nullptr) {
    ++counters_.half_open_full;
    return nullptr;
  }
  connection->transaction_id = in.mad.header.transaction_id;
  connection->unanswered = listener.unanswered;
  return connection;
}

void ConnectionManager::SetState(Connection& connection, State state) {
  const State before = connection.state;
  connection.state = state;
  const int opened = int{IsHalfOpen(state)} - int{IsHalfOpen(before)};
  if (opened == 0) return;
  *connection.unanswered += opened;
  half_open_ += opened;
  const auto of_peer = half_open_of_.try_emplace(connection.peer.path.destination_gid, 0).first;
  of_peer->second += opened;
  if (of_peer->second == 0) half_open_of_.erase(of_peer);
}

bool ConnectionManager::List(PeerTable& table, std::optional<PeerKey>& key, const PeerKey& wanted,
                             CommunicationId id) {
  if (!table.emplace(wanted, id).second) return false;
  key = wanted;
  return true;
}

void ConnectionManager::Unlist(PeerTable& table, std::optional<PeerKey>& key) {
  if (key) table.erase(*key);
  key.reset();
}

// --- events

void ConnectionManager::Tell(EventKind kind, const Connection& connection) {
  if (connection.is_orphaned) return;
  events_.push_back({.kind = kind, .id = connection.local_id});
}

void ConnectionManager::Tell(EventKind kind, const Connection& connection, const Incoming& in,
                             CommunicationId listener_id) {
  if (connection.is_orphaned) return;
  events_.push_back({.kind = kind,
                     .id = connection.local_id,
                     .listener_id = listener_id,
                     .source = in.source,
                     .message = in.mad.message});
}

std::optional<Event> ConnectionManager::TakeEvent() {
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace uroce::transport::cm
