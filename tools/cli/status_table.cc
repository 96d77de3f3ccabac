#include "tools/cli/status_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <numeric>
#include <string_view>

#include "tools/cli/printable.h"

namespace uroce::cli {
namespace {

using nic::control::StatusDaemon;
using transport::QueuePairRecord;

// Rows of texts in columns that are as wide as need be. The first row are the headings.
class Table {
 public:
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string text() const {
    std::vector<size_t> widths(rows_.at(0).size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      text += " ";
      for (size_t i = 0; i < row.size(); ++i) {
        const bool is_last = i + 1 == row.size();
        text += " " + row[i] + std::string(is_last ? 0 : widths[i] - row[i].size() + 1, ' ');
      }
      text += "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

// In the largest unit that leaves a meaningful number.
std::string Age(uint64_t ms) {
  const uint64_t s = ms / 1'000;
  if (s < 180) return std::to_string(s) + " s";
  if (s < 180 * 60) return std::to_string(s / 60) + " min";
  if (s < 72 * 3'600) return std::to_string(s / 3'600) + " h";
  return std::to_string(s / (24 * 3'600)) + " d";
}

std::string Hexadecimal(uint32_t number) {
  std::array<char, 11> text;
  std::snprintf(text.data(), text.size(), "0x%06x", number);
  return text.data();
}

// Appends ", 3 malformed" unless the count is 0.
void AddReason(uint64_t count, std::string_view reason, std::string* text) {
  if (count == 0) return;
  if (!text->empty()) *text += ", ";
  *text += std::to_string(count) + " " + std::string(reason);
}

std::string PortDropsText(const nic::PortDrops& drops, const std::string& owner) {
  std::string dropped;
  for (size_t i = 0; i < nic::kPortDropReasons; ++i) {
    const auto reason = static_cast<nic::PortDrop>(i);
    std::string name(NameOf(reason));
    std::replace(name.begin(), name.end(), '_', ' ');
    AddReason(drops[reason], name, &dropped);
  }
  return dropped.empty() ? "" : "dropped by the " + owner + ": " + dropped + "\n";
}

std::string DaemonText(const FabricStatus& status) {
  const StatusDaemon& daemon = status.daemon;
  std::string text = "fabric '" + status.fabric + "': uroced " + std::to_string(daemon.pid) +
                     (daemon.is_private ? ", private" : "") + ", for " + Age(daemon.uptime_ms) +
                     ", MTU " + std::to_string(daemon.mtu_bytes) + "\n";
  if (!daemon.has_wire) return text + "port: none, the fabric ends at this host\n";
  text += "port: " + Printable(TextOf(daemon.port)) + ", " + (daemon.wire_is_up ? "up" : "down") +
          ", MAC " + TextOf(daemon.mac) + "\n";
  const size_t count = std::min<size_t>(daemon.gid_count, daemon.gids.size());
  for (size_t i = 0; i < count; ++i) {
    if (daemon.gids[i].IsZero()) continue;
    text += "  GID " + std::to_string(i) + "  " + TextOf(daemon.gids[i]) + "\n";
  }
  return text + PortDropsText(daemon.counters.port, "port");
}

std::string SwitchText(const nic::control::SwitchCounters& counters) {
  std::string text = "frames: " + std::to_string(counters.frames_to_wire) + " to the wire, " +
                     std::to_string(counters.frames_from_wire) + " from it, " +
                     std::to_string(counters.multicast_copies) + " copies to groups\n";
  std::string dropped;
  for (const auto& row : nic::control::kSwitchDrops) {
    AddReason(counters.*row.field, row.words, &dropped);
  }
  return dropped.empty() ? text : text + "dropped: " + dropped + "\n";
}

uint64_t Dropped(const transport::Counters& counters) {
  return std::accumulate(counters.dropped.begin(), counters.dropped.end(), uint64_t{0});
}

std::string ClientsText(const FabricStatus& status) {
  if (status.clients.empty()) return "processes: none\n";
  std::map<nic::control::Block, int> links;
  for (const auto& link : status.links) {
    ++links[link.block];
    ++links[link.other_block];
  }
  Table table;
  table.Add({"PID", "USER", "COMMAND", "BLOCK", "FOR", "LINKS", "QPS", "SENT", "RECEIVED", "RESENT",
             "DROPPED"});
  for (const auto& [client, endpoint] : status.clients) {
    std::vector<std::string> row = {
        std::to_string(client.pid),        std::to_string(client.uid),
        Printable(TextOf(client.command)), std::to_string(client.block),
        Age(client.attached_ms),           std::to_string(links[client.block])};
    if (endpoint) {
      row.insert(row.end(), {std::to_string(endpoint->queue_pairs.size()),
                             std::to_string(endpoint->counters.transmitted_packets),
                             std::to_string(endpoint->counters.received_packets),
                             std::to_string(endpoint->counters.retransmitted_packets),
                             std::to_string(Dropped(endpoint->counters))});
    } else {
      row.insert(row.end(), 5, "?");
    }
    table.Add(std::move(row));
  }
  std::string text = "processes:\n" + table.text();
  for (const auto& [client, endpoint] : status.clients) {
    text += PortDropsText(client.wire_drops, "sockets of " + std::to_string(client.pid));
  }
  return text;
}

std::string QueuePairsText(const FabricStatus& status) {
  Table table;
  table.Add({"QPN", "PID", "TYPE", "STATE", "PEER", "AT", "MTU", "SQ_PSN", "RQ_PSN", "TIMEOUT",
             "RETRY", "RNR", "SENT", "RECEIVED", "RESENT"});
  bool has_any = false;
  for (const auto& [client, endpoint] : status.clients) {
    if (!endpoint) continue;
    for (const QueuePairRecord& record : endpoint->queue_pairs) {
      const transport::QpAttributes& attributes = record.attributes;
      const bool has_peer = attributes.destination_qpn.value != 0;
      table.Add({Hexadecimal(record.qpn.value), std::to_string(client.pid), NameOf(record.type),
                 NameOf(attributes.state),
                 has_peer ? Hexadecimal(attributes.destination_qpn.value) : "-",
                 has_peer ? TextOf(attributes.address.destination_gid) : "-",
                 std::to_string(PathMtuBytes(attributes.path_mtu)),
                 Hexadecimal(attributes.sq_psn.value()), Hexadecimal(attributes.rq_psn.value()),
                 std::to_string(attributes.timeout), std::to_string(attributes.retry_count),
                 std::to_string(attributes.rnr_retry),
                 std::to_string(record.counters.transmitted_packets),
                 std::to_string(record.counters.received_packets),
                 std::to_string(record.counters.retransmitted_packets)});
      has_any = true;
    }
  }
  return has_any ? "queue pairs:\n" + table.text() : "queue pairs: none\n";
}

std::string LinksText(const FabricStatus& status) {
  if (status.links.empty()) return "links: none\n";
  std::map<nic::control::Block, std::string> names = {{nic::control::kSwitchBlock, "uroced"}};
  for (const auto& [client, endpoint] : status.clients) {
    names[client.block] = std::to_string(client.pid) + " " + Printable(TextOf(client.command));
  }
  // The status names no process of another user.
  const auto name_of = [&](nic::control::Block block) {
    const auto name = names.find(block);
    return name == names.end() ? "block " + std::to_string(block) : name->second;
  };
  std::string text = "links:\n";
  for (const auto& link : status.links) {
    text += "  " + name_of(link.block) + " - " + name_of(link.other_block) + "\n";
  }
  return text;
}

}  // namespace

std::string StatusAsTable(const FabricStatus& status) {
  return DaemonText(status) + SwitchText(status.daemon.counters) + ClientsText(status) +
         QueuePairsText(status) + LinksText(status);
}

}  // namespace uroce::cli
