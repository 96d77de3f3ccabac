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
          {"dropped", DropsAsJson(daemon.port_drops)}};
}

Json SwitchAsJson(const nic::control::StatusDaemon& daemon) {
  return {{"frames_to_wire", daemon.frames_to_wire},
          {"frames_from_wire", daemon.frames_from_wire},
          {"multicast_copies", daemon.multicast_copies},
          {"frames_between_processes", daemon.frames_between_processes},
          {"frames_passed_on", daemon.frames_passed_on},
          {"dropped",
           {{"unknown_destination", daemon.dropped_unknown_destination},
            {"not_declared", daemon.dropped_not_declared},
            {"foreign_source", daemon.dropped_foreign_source},
            {"malformed", daemon.dropped_malformed},
            {"no_room", daemon.dropped_no_room}}}};
}

Json CountersAsJson(const transport::Counters& counters) {
  return {{"transmitted_packets", counters.transmitted_packets},
          {"transmitted_bytes", counters.transmitted_bytes},
          {"received_packets", counters.received_packets},
          {"received_bytes", counters.received_bytes},
          {"retransmitted_packets", counters.retransmitted_packets},
          {"ack_timeouts", counters.ack_timeouts},
          {"probes", counters.probes},
          {"retries_exceeded", counters.retries_exceeded},
          {"psn_naks_received", counters.psn_naks_received},
          {"implied_naks", counters.implied_naks},
          {"rnr_naks_received", counters.rnr_naks_received},
          {"rnr_retries_exceeded", counters.rnr_retries_exceeded},
          {"psn_naks_sent", counters.psn_naks_sent},
          {"rnr_naks_sent", counters.rnr_naks_sent},
          {"error_naks_sent", counters.error_naks_sent},
          {"duplicate_requests", counters.duplicate_requests},
          {"memory_gone", counters.memory_gone},
          {"dropped", DropsAsJson(counters)}};
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
          {"max_inline_bytes", record.capabilities.max_inline_bytes}};
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
               {"queue_pairs", nullptr}};
  if (!status.endpoint) return json;
  json["counters"] = CountersAsJson(status.endpoint->counters);
  Json& queue_pairs = json["queue_pairs"] = Json::array();
  for (const QueuePairRecord& record : status.endpoint->queue_pairs) {
    queue_pairs.push_back(QueuePairAsJson(record));
  }
  return json;
}

}  // namespace

std::string StatusAsJson(const FabricStatus& status) {
  Json json = {{"fabric", status.fabric},           {"daemon", DaemonAsJson(status.daemon)},
               {"port", PortAsJson(status.daemon)}, {"switch", SwitchAsJson(status.daemon)},
               {"clients", Json::array()},          {"links", Json::array()}};
  for (const ClientStatus& client : status.clients) json["clients"].push_back(ClientAsJson(client));
  for (const nic::control::StatusLink& link : status.links) {
    json["links"].push_back({{"block", link.block}, {"other_block", link.other_block}});
  }
  // The texts that processes supply may be no UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace uroce::cli
