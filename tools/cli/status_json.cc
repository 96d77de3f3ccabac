#include "tools/cli/status_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace uroce::cli {
namespace {

using transport::DropReason;
using transport::QueuePairRecord;
using Json = nlohmann::ordered_json;

Json DaemonAsJson(const nic::control::StatusDaemon& daemon) {
  return {{"pid", daemon.pid},
          {"private", daemon.is_private != 0},
          {"uptime_ms", daemon.uptime_ms},
          {"mtu", daemon.mtu_bytes},
          {"clients", daemon.clients}};
}

Json DropsAsJson(const nic::PortDrops& drops) {
  Json json = Json::object();
  for (size_t i = 0; i < nic::kPortDropReasons; ++i) {
    const auto reason = static_cast<nic::PortDrop>(i);
    json[NameOf(reason)] = drops[reason];
  }
  return json;
}

Json DropsAsJson(const transport::Counters& counters) {
  Json json = Json::object();
  for (size_t i = 1; i < counters.dropped.size(); ++i) {
    json[Name(static_cast<DropReason>(i))] = counters.dropped[i];
  }
  return json;
}

Json PortAsJson(const nic::control::StatusDaemon& daemon) {
  if (!daemon.has_wire) return nullptr;
  Json gids = Json::array();
  const size_t count = std::min<size_t>(daemon.gid_count, daemon.gids.size());
  for (size_t i = 0; i < count; ++i) gids.push_back(TextOf(daemon.gids[i]));
  return {{"devargs", TextOf(daemon.port)},
          {"up", daemon.wire_is_up != 0},
          {"mac", TextOf(daemon.mac)},
          {"gids", std::move(gids)},
          {"dropped", DropsAsJson(daemon.counters.port)}};
}

Json SwitchAsJson(const nic::control::SwitchCounters& counters) {
  Json json = Json::object();
  for (const auto& row : nic::control::kSwitchCounters) json[row.name] = counters.*row.field;
  Json& dropped = json["dropped"] = Json::object();
  for (const auto& row : nic::control::kSwitchDrops) dropped[row.name] = counters.*row.field;
  return json;
}

Json CountersAsJson(const transport::Counters& counters) {
  Json json = Json::object();
  for (const auto& row : transport::kQueuePairCounters) json[row.name] = counters.*row.of_endpoint;
  json["dropped"] = DropsAsJson(counters);
  return json;
}

Json CountersAsJson(const transport::QueuePairCounters& counters) {
  Json json = Json::object();
  for (const auto& row : transport::kQueuePairCounters) {
    json[row.name] = counters.*row.of_queue_pair;
  }
  return json;
}

Json CountersAsJson(const transport::cm::Counters& counters) {
  Json json = Json::object();
  for (const auto& row : transport::cm::kMessageCounters) {
    Json& messages = json[row.name] = Json::object();
    for (size_t i = 0; i < transport::cm::kAttributes; ++i) {
      messages[transport::cm::Name(transport::cm::AttributeAt(i))] = (counters.*row.messages)[i];
    }
  }
  Json& malformed = json["malformed"] = Json::object();
  for (size_t i = 1; i < counters.malformed.size(); ++i) {
    malformed[transport::cm::Name(static_cast<transport::cm::Malformed>(i))] =
        counters.malformed[i];
  }
  for (const auto& row : transport::cm::kCounters) json[row.name] = counters.*row.field;
  return json;
}

Json CountersAsJson(const transport::PeerCounters& counters) {
  Json json = Json::object();
  for (const auto& row : transport::kPeerCounters) json[row.name] = counters.*row.field;
  return json;
}

Json CountersAsJson(const nic::PortCounters& counters) {
  Json json = Json::object();
  for (const auto& row : nic::kPortCounters) json[row.name] = counters.*row.field;
  json["dropped"] = DropsAsJson(counters.drops);
  return json;
}

Json QueuePairAsJson(const QueuePairRecord& record) {
  const transport::QpAttributes& attributes = record.attributes;
  return {{"qpn", record.qpn.value},
          {"type", NameOf(record.type)},
          {"state", NameOf(attributes.state)},
          {"destination_qpn", attributes.destination_qpn.value},
          {"destination_gid", TextOf(attributes.address.destination_gid)},
          {"source_gid_index", attributes.address.source_gid_index},
          {"path_mtu", PathMtuBytes(attributes.path_mtu)},
          {"sq_psn", attributes.sq_psn.value()},
          {"rq_psn", attributes.rq_psn.value()},
          {"qkey", attributes.qkey},
          {"access", attributes.access.bits()},
          {"timeout", attributes.timeout},
          {"retry_count", attributes.retry_count},
          {"rnr_retry", attributes.rnr_retry},
          {"min_rnr_timer", attributes.min_rnr_timer},
          {"max_read_atomic", attributes.max_read_atomic},
          {"max_dest_read_atomic", attributes.max_dest_read_atomic},
          {"max_send_wr", record.capabilities.max_send_wr},
          {"max_receive_wr", record.capabilities.max_receive_wr},
          {"max_send_sge", record.capabilities.max_send_sge},
          {"max_receive_sge", record.capabilities.max_receive_sge},
          {"max_inline_bytes", record.capabilities.max_inline_bytes},
          {"counters", CountersAsJson(record.counters)}};
}

Json ClientAsJson(const ClientStatus& status) {
  const nic::control::StatusClient& client = status.client;
  Json json = {{"block", client.block},
               {"pid", client.pid},
               {"uid", client.uid},
               {"command", TextOf(client.command)},
               {"attached_ms", client.attached_ms},
               {"declared_connections", client.declared_connections},
               {"groups", client.groups},
               {"wire_dropped", DropsAsJson(client.wire_drops)},
               {"counters", nullptr},
               {"connection_manager", nullptr},
               {"peers", nullptr},
               {"port", nullptr},
               {"queue_pairs", nullptr}};
  if (!status.endpoint) return json;
  json["counters"] = CountersAsJson(status.endpoint->counters);
  json["connection_manager"] = CountersAsJson(status.endpoint->connection_manager);
  json["peers"] = CountersAsJson(status.endpoint->peers);
  json["port"] = CountersAsJson(status.endpoint->port);
  Json& queue_pairs = json["queue_pairs"] = Json::array();
  for (const QueuePairRecord& record : status.endpoint->queue_pairs) {
    queue_pairs.push_back(QueuePairAsJson(record));
  }
  return json;
}

}  // namespace

std::string StatusAsJson(const FabricStatus& status) {
  Json json = {
      {"fabric", status.fabric},           {"daemon", DaemonAsJson(status.daemon)},
      {"port", PortAsJson(status.daemon)}, {"switch", SwitchAsJson(status.daemon.counters)},
      {"clients", Json::array()},          {"links", Json::array()}};
  for (const ClientStatus& client : status.clients) json["clients"].push_back(ClientAsJson(client));
  for (const nic::control::StatusLink& link : status.links) {
    json["links"].push_back({{"block", link.block}, {"other_block", link.other_block}});
  }
  // The texts that processes supply may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace uroce::cli
