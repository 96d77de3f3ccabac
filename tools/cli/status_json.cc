#include "tools/cli/status_json.h"

#include <algorithm>

#include "tools/cli/json_writer.h"

namespace uroce::cli {
namespace {

using transport::Counters;
using transport::DropReason;
using transport::QueuePairRecord;

void WriteDaemon(const nic::control::StatusDaemon& daemon, JsonWriter& json) {
  json.BeginObject("daemon");
  json.Number("pid", static_cast<uint64_t>(daemon.pid));
  json.Bool("private", daemon.is_private);
  json.Number("uptime_ms", daemon.uptime_ms);
  json.Number("mtu", daemon.mtu_bytes);
  json.Number("clients", daemon.clients);
  json.EndObject();
}

void WritePortDrops(std::string_view name, const nic::PortDrops& drops, JsonWriter& json) {
  json.BeginObject(name);
  for (size_t i = 0; i < nic::kPortDropReasons; ++i) {
    const auto reason = static_cast<nic::PortDrop>(i);
    json.Number(NameOf(reason), drops[reason]);
  }
  json.EndObject();
}

void WritePort(const nic::control::StatusDaemon& daemon, JsonWriter& json) {
  if (!daemon.has_wire) return json.Null("port");
  json.BeginObject("port");
  json.String("devargs", TextOf(daemon.port));
  json.Bool("up", daemon.wire_is_up);
  json.String("mac", TextOf(daemon.mac));
  json.BeginArray("gids");
  const size_t count = std::min<size_t>(daemon.gid_count, daemon.gids.size());
  for (size_t i = 0; i < count; ++i) json.String(TextOf(daemon.gids[i]));
  json.EndArray();
  WritePortDrops("dropped", daemon.port_drops, json);
  json.EndObject();
}

void WriteSwitch(const nic::control::StatusDaemon& daemon, JsonWriter& json) {
  json.BeginObject("switch");
  json.Number("frames_to_wire", daemon.frames_to_wire);
  json.Number("frames_from_wire", daemon.frames_from_wire);
  json.Number("multicast_copies", daemon.multicast_copies);
  json.Number("frames_between_processes", daemon.frames_between_processes);
  json.Number("frames_passed_on", daemon.frames_passed_on);
  json.BeginObject("dropped");
  json.Number("unknown_destination", daemon.dropped_unknown_destination);
  json.Number("not_declared", daemon.dropped_not_declared);
  json.Number("foreign_source", daemon.dropped_foreign_source);
  json.Number("malformed", daemon.dropped_malformed);
  json.Number("no_room", daemon.dropped_no_room);
  json.EndObject();
  json.EndObject();
}

void WriteCounters(const Counters& counters, JsonWriter& json) {
  json.BeginObject("counters");
  json.Number("transmitted_packets", counters.transmitted_packets);
  json.Number("transmitted_bytes", counters.transmitted_bytes);
  json.Number("received_packets", counters.received_packets);
  json.Number("received_bytes", counters.received_bytes);
  json.Number("retransmitted_packets", counters.retransmitted_packets);
  json.Number("ack_timeouts", counters.ack_timeouts);
  json.Number("retries_exceeded", counters.retries_exceeded);
  json.Number("psn_naks_received", counters.psn_naks_received);
  json.Number("implied_naks", counters.implied_naks);
  json.Number("rnr_naks_received", counters.rnr_naks_received);
  json.Number("rnr_retries_exceeded", counters.rnr_retries_exceeded);
  json.Number("psn_naks_sent", counters.psn_naks_sent);
  json.Number("rnr_naks_sent", counters.rnr_naks_sent);
  json.Number("error_naks_sent", counters.error_naks_sent);
  json.Number("duplicate_requests", counters.duplicate_requests);
  json.Number("memory_gone", counters.memory_gone);
  json.BeginObject("dropped");
  for (size_t i = 1; i < counters.dropped.size(); ++i) {
    json.Number(Name(static_cast<DropReason>(i)), counters.dropped[i]);
  }
  json.EndObject();
  json.EndObject();
}

void WriteQueuePair(const QueuePairRecord& record, JsonWriter& json) {
  const transport::QpAttributes& attributes = record.attributes;
  json.BeginObject();
  json.Number("qpn", record.qpn.value);
  json.String("type", NameOf(record.type));
  json.String("state", NameOf(attributes.state));
  json.Number("destination_qpn", attributes.destination_qpn.value);
  json.String("destination_gid", TextOf(attributes.address.destination_gid));
  json.Number("source_gid_index", attributes.address.source_gid_index);
  json.Number("path_mtu", PathMtuBytes(attributes.path_mtu));
  json.Number("sq_psn", attributes.sq_psn.value());
  json.Number("rq_psn", attributes.rq_psn.value());
  json.Number("qkey", attributes.qkey);
  json.Number("access", attributes.access.bits());
  json.Number("timeout", attributes.timeout);
  json.Number("retry_count", attributes.retry_count);
  json.Number("rnr_retry", attributes.rnr_retry);
  json.Number("min_rnr_timer", attributes.min_rnr_timer);
  json.Number("max_read_atomic", attributes.max_read_atomic);
  json.Number("max_dest_read_atomic", attributes.max_dest_read_atomic);
  json.Number("max_send_wr", record.capabilities.max_send_wr);
  json.Number("max_receive_wr", record.capabilities.max_receive_wr);
  json.Number("max_send_sge", record.capabilities.max_send_sge);
  json.Number("max_receive_sge", record.capabilities.max_receive_sge);
  json.Number("max_inline_bytes", record.capabilities.max_inline_bytes);
  json.EndObject();
}

void WriteClient(const ClientStatus& status, JsonWriter& json) {
  const nic::control::StatusClient& client = status.client;
  json.BeginObject();
  json.Number("block", client.block);
  json.Number("pid", static_cast<uint64_t>(client.pid));
  json.Number("uid", client.uid);
  json.String("command", TextOf(client.command));
  json.Number("attached_ms", client.attached_ms);
  json.Number("declared_connections", client.declared_connections);
  json.Number("groups", client.groups);
  WritePortDrops("wire_dropped", client.wire_drops, json);
  if (status.endpoint) {
    WriteCounters(status.endpoint->counters, json);
    json.BeginArray("queue_pairs");
    for (const QueuePairRecord& record : status.endpoint->queue_pairs) {
      WriteQueuePair(record, json);
    }
    json.EndArray();
  } else {
    json.Null("counters");
    json.Null("queue_pairs");
  }
  json.EndObject();
}

}  // namespace

std::string StatusAsJson(const FabricStatus& status) {
  JsonWriter json;
  json.BeginObject();
  json.String("fabric", status.fabric);
  WriteDaemon(status.daemon, json);
  WritePort(status.daemon, json);
  WriteSwitch(status.daemon, json);
  json.BeginArray("clients");
  for (const ClientStatus& client : status.clients) WriteClient(client, json);
  json.EndArray();
  json.BeginArray("links");
  for (const nic::control::StatusLink& link : status.links) {
    json.BeginObject();
    json.Number("block", link.block);
    json.Number("other_block", link.other_block);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return json.text() + "\n";
}

}  // namespace uroce::cli
