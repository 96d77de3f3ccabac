#include "tools/cli/counter_names.h"

#include <string_view>

#include "dpdk_nic/control/switch_counters.h"
#include "dpdk_nic/port/port_drops.h"
#include "transport/cm/counters.h"
#include "transport/counters.h"
#include "transport/peers/counters.h"

namespace uroce::cli {
namespace {

std::string Heading(std::string_view title, std::string_view place) {
  return "\n## " + std::string(title) + "\n\n`" + std::string(place) +
         "`\n\n| Counter | Linux | Meaning |\n|---|---|---|\n";
}

std::string Row(std::string_view name, std::string_view linux_name, std::string_view meaning) {
  std::string row = "| `" + std::string(name) + "` | ";
  if (!linux_name.empty()) row += "`" + std::string(linux_name) + "` ";
  return row + "| " + std::string(meaning) + " |\n";
}

std::string PortDropRows() {
  std::string text;
  for (const auto& row : nic::kPortDropNames) text += Row(row.name, "", row.meaning);
  return text;
}

}  // namespace

std::string CounterNames() {
  std::string text =
      "# Counters\n\n`uroce status --json` has them, of each process and of each of its queue "
      "pairs. "
      "Counts only grow. What\nLinux has a name for is a file as well, of all processes "
      "that are on the fabric then:\n`/sys/class/infiniband/uroce0/ports/1/hw_counters`, and "
      "beside it `counters` with data, packets, errors and\ndiscards of the port.\n";
  text += Heading("Packets", "clients[].counters, clients[].queue_pairs[].counters");
  for (const auto& row : transport::kQueuePairCounters) {
    text += Row(row.name, row.linux_name, row.meaning);
  }
  text += Heading("Frames that a process dropped", "clients[].counters.dropped");
  for (size_t i = 1; i < transport::kDropReasons; ++i) {
    text += Row(transport::kDropNames[i].name, "", transport::kDropNames[i].meaning);
  }
  text += Heading("Messages of the connection manager", "clients[].connection_manager");
  for (const auto& row : transport::cm::kMessageCounters) {
    text += Row(row.name, row.linux_name, std::string(row.meaning) + ", by kind");
  }
  text += Row("malformed", "", "messages that break a rule, by reason");
  for (const auto& row : transport::cm::kCounters) text += Row(row.name, "", row.meaning);
  text += Heading("Whether other hosts speak uroce", "clients[].peers");
  for (const auto& row : transport::kPeerCounters) text += Row(row.name, "", row.meaning);
  text += Heading("Links of a process", "clients[].port");
  for (const auto& row : nic::kPortCounters) text += Row(row.name, "", row.meaning);
  text += Heading("Frames that a port lost",
                  "port.dropped, clients[].port.dropped, clients[].wire_dropped");
  text += PortDropRows();
  text += Heading("The switch of uroced", "switch");
  for (const auto& row : nic::control::kSwitchCounters) text += Row(row.name, "", row.meaning);
  text += Heading("Frames that the switch dropped", "switch.dropped");
  for (const auto& row : nic::control::kSwitchDrops) text += Row(row.name, "", row.meaning);
  return text;
}

}  // namespace uroce::cli
