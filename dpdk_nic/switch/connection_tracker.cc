#include "dpdk_nic/switch/connection_tracker.h"

#include <utility>
#include <variant>

#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"
#include "transport/cm/steering.h"

namespace uroce::nic {

using control::Block;
using control::kSwitchBlock;
using transport::Gid;
using transport::Qpn;
using transport::Time;
using transport::cm::CommunicationId;
using transport::cm::Drep;
using transport::cm::Dreq;
using transport::cm::Rej;
using transport::cm::Rep;
using transport::cm::Rtu;

namespace {

// An XRC target says the number of its queue pair in the place of a context of reliable datagrams.
Qpn ReplierQpn(const Rep& rep) {
  return rep.local_qpn == Qpn{} ? Qpn{rep.local_eecn} : rep.local_qpn;
}

}  // namespace

void ConnectionTracker::Follow(Block sender, Block receiver, const RoceHeaders& headers,
                               std::span<const uint8_t> mad, Qpn requester_qpn) {
  const transport::cm::ParsedMad parsed = transport::cm::ParseMessage(mad);
  if (parsed.malformed != transport::cm::Malformed::kNone) return;
  const Rep* const rep = std::get_if<Rep>(&parsed.message);
  if (rep != nullptr && requester_qpn != Qpn{}) {
    Add(sender, {.local_id = rep->local_id,
                 .remote_id = rep->remote_id,
                 .remote_qpn = requester_qpn,
                 .local_gid = headers.source,
                 .local_mac = headers.source_mac,
                 .remote_gid = headers.destination,
                 .remote_mac = headers.destination_mac});
    Add(receiver, {.local_id = rep->remote_id,
                   .remote_id = rep->local_id,
                   .remote_qpn = ReplierQpn(*rep),
                   .local_gid = headers.destination,
                   .local_mac = headers.destination_mac,
                   .remote_gid = headers.source,
                   .remote_mac = headers.source_mac,
                   .is_requester = true});
  } else if (std::holds_alternative<Rtu>(parsed.message)) {
    MarkReady(sender, *headers.cm->sender, headers.destination);
    MarkReady(receiver, *headers.cm->recipient, headers.source);
  } else if (std::holds_alternative<Dreq>(parsed.message)) {
    End(sender, *headers.cm->sender, headers.destination);
  } else if (std::holds_alternative<Drep>(parsed.message) ||
             std::holds_alternative<Rej>(parsed.message)) {
    End(sender, *headers.cm->sender, headers.destination);
    End(receiver, *headers.cm->recipient, headers.source);
  }
}

Qpn ConnectionTracker::RequesterQpn(std::span<const uint8_t> mad) {
  const transport::cm::ParsedMad parsed = transport::cm::ParseMessage(mad);
  const auto* const req = std::get_if<transport::cm::Req>(&parsed.message);
  const bool is_req = parsed.malformed == transport::cm::Malformed::kNone && req != nullptr;
  return is_req ? req->local_qpn : Qpn{};
}

// A REP that is repeated changes nothing of a connection that is ending.
void ConnectionTracker::Add(Block block, const Connection& connection) {
  if (block == kSwitchBlock || connection.remote_qpn == Qpn{}) return;
  Connections& connections = connections_[block];
  const auto found = connections.find(connection.local_id);
  if (found == connections.end()) {
    if (connections.size() < kMaxConnections) connections.emplace(connection.local_id, connection);
  } else if (found->second.progress == Progress::kOpen) {
    found->second = connection;
  }
}

ConnectionTracker::Connection* ConnectionTracker::FindById(Block block, CommunicationId local_id) {
  const auto process = connections_.find(block);
  if (process == connections_.end()) return nullptr;
  const auto found = process->second.find(local_id);
  return found == process->second.end() ? nullptr : &found->second;
}

ConnectionTracker::Connection* ConnectionTracker::Find(Block block, CommunicationId local_id,
                                                       CommunicationId remote_id,
                                                       const Gid& remote_gid) {
  Connection* const connection = FindById(block, local_id);
  const bool is_it = connection != nullptr && connection->remote_id == remote_id &&
                     connection->remote_gid == remote_gid;
  return is_it ? connection : nullptr;
}

void ConnectionTracker::MarkReady(Block block, CommunicationId local_id, const Gid& remote_gid) {
  Connection* const connection = FindById(block, local_id);
  if (connection != nullptr && connection->remote_gid == remote_gid) connection->is_ready = true;
}

void ConnectionTracker::End(Block block, CommunicationId local_id, const Gid& remote_gid) {
  const Connection* const connection = FindById(block, local_id);
  if (connection == nullptr || connection->remote_gid != remote_gid) return;
  const auto process = connections_.find(block);
  process->second.erase(local_id);
  if (process->second.empty()) connections_.erase(process);
}

void ConnectionTracker::BeginDisconnect(Time now, Connection& connection, uint64_t transaction_id) {
  connection.progress = Progress::kDisconnecting;
  connection.transaction_id = transaction_id;
  LookAgain(now, connection);
}

void ConnectionTracker::LookAgain(Time now, Connection& connection) {
  connection.due = now + kAnswerWithin;
  waiting_.push_back({connection.due, connection.local_id});
}

ConnectionTracker::Connection* ConnectionTracker::TakeDue(Time now) {
  while (!waiting_.empty() && waiting_.front().due <= now) {
    const Waiting waiting = waiting_.front();
    waiting_.pop_front();
    Connection* const connection =
        FindById(transport::cm::Steering::BlockOf(waiting.local_id), waiting.local_id);
    const bool is_due = connection != nullptr && connection->progress != Progress::kOpen &&
                        connection->due == waiting.due;
    if (is_due) return connection;
  }
  return nullptr;
}

std::vector<ConnectionTracker::Connection> ConnectionTracker::Remove(Block block) {
  const auto found = connections_.find(block);
  if (found == connections_.end()) return {};
  std::vector<Connection> ended;
  ended.reserve(found->second.size());
  for (auto& [id, connection] : found->second) ended.push_back(std::move(connection));
  connections_.erase(found);
  return ended;
}

}  // namespace uroce::nic
