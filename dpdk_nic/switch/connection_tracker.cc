#include "dpdk_nic/switch/connection_tracker.h"

#include <utility>
#include <variant>

#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"

namespace uroce::nic {

using control::Block;
using control::kSwitchBlock;
using transport::Gid;
using transport::Qpn;
using transport::cm::CommunicationId;
using transport::cm::Message;
using transport::cm::Rep;

void ConnectionTracker::Follow(Block sender, Block receiver, const RoceHeaders& headers,
                               std::span<const uint8_t> mad, Qpn requester_qpn) {
  const transport::cm::ParsedMad parsed = transport::cm::ParseMessage(mad);
  if (parsed.malformed != transport::cm::Malformed::kNone) return;
  if (const Rep* const rep = std::get_if<Rep>(&parsed.message)) {
    Add(sender, {.local_id = rep->local_id,
                 .remote_id = rep->remote_id,
                 .remote_qpn = requester_qpn,
                 .local_gid = headers.source,
                 .local_mac = headers.source_mac,
                 .remote_gid = headers.destination,
                 .remote_mac = headers.destination_mac});
    Add(receiver, {.local_id = rep->remote_id,
                   .remote_id = rep->local_id,
                   .remote_qpn = rep->local_qpn,
                   .local_gid = headers.destination,
                   .local_mac = headers.destination_mac,
                   .remote_gid = headers.source,
                   .remote_mac = headers.source_mac});
    return;
  }
  const bool is_end = std::holds_alternative<transport::cm::Dreq>(parsed.message) ||
                      std::holds_alternative<transport::cm::Drep>(parsed.message) ||
                      std::holds_alternative<transport::cm::Rej>(parsed.message);
  if (!is_end) return;
  End(sender, *headers.cm->sender, headers.destination);
  End(receiver, *headers.cm->recipient, headers.source);
}

Qpn ConnectionTracker::RequesterQpn(std::span<const uint8_t> mad) {
  const transport::cm::ParsedMad parsed = transport::cm::ParseMessage(mad);
  const auto* const req = std::get_if<transport::cm::Req>(&parsed.message);
  const bool is_req = parsed.malformed == transport::cm::Malformed::kNone && req != nullptr;
  return is_req ? req->local_qpn : Qpn{};
}

void ConnectionTracker::Add(Block block, const Connection& connection) {
  if (block == kSwitchBlock || connection.remote_qpn == Qpn{}) return;
  Connections& connections = connections_[block];
  if (connections.size() >= kMaxConnections && !connections.contains(connection.local_id)) return;
  connections[connection.local_id] = connection;
}

void ConnectionTracker::End(Block block, CommunicationId local_id, const Gid& remote_gid) {
  const auto found = connections_.find(block);
  if (found == connections_.end()) return;
  const auto connection = found->second.find(local_id);
  if (connection == found->second.end() || connection->second.remote_gid != remote_gid) return;
  found->second.erase(connection);
  if (found->second.empty()) connections_.erase(found);
}

std::vector<ConnectionTracker::Connection> ConnectionTracker::Remove(Block block) {
  const auto found = connections_.find(block);
  if (found == connections_.end()) return {};
  std::vector<Connection> ended;
  ended.reserve(found->second.size());
  for (const auto& [id, connection] : found->second) ended.push_back(connection);
  connections_.erase(found);
  return ended;
}

}  // namespace uroce::nic
