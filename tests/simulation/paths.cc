#include "tests/simulation/paths.h"

#include <array>
#include <cstdarg>
#include <cstdio>

#include "tests/simulation/path_run.h"

namespace uroce::transport::simulation {
namespace {

constexpr uint32_t kKib = 1 << 10;
constexpr uint32_t kMib = 1 << 20;
constexpr uint64_t k100M = 100'000;
constexpr uint64_t k1G = 1'000'000;
constexpr uint64_t k10G = 10'000'000;

__attribute__((format(printf, 2, 3))) void Append(std::string& text, const char* format, ...) {
  std::array<char, 160> buffer;
  va_list values;
  va_start(values, format);
  std::vsnprintf(buffer.data(), buffer.size(), format, values);
  va_end(values);
  text += buffer.data();
}

const char* NameOfRate(uint64_t kbps) {
  return kbps == k100M ? "100M" : kbps == k1G ? "1G" : "10G";
}

// The path, in the words of the table's first columns.
void AppendPath(std::string& table, const PathOptions& path) {
  Append(table, "%5s %6.1f %6u", NameOfRate(path.kbps), static_cast<double>(path.one_way.ns) * 2e-6,
         path.queue_bytes / kKib);
}

PathOptions Path(uint64_t kbps, Duration round_trip, uint32_t queue_bytes) {
  PathOptions path;
  path.kbps = kbps;
  path.one_way = {round_trip.ns / 2};
  path.queue_bytes = queue_bytes;
  return path;
}

// Long enough to reach a steady state, and not longer: a table is to be made in seconds.
Duration LengthFor(const PathOptions& path, bool is_long) {
  const Duration base = path.kbps == k100M ? Milliseconds(1'500) : Milliseconds(300);
  const Duration length = std::max(base, path.one_way * 50);
  return is_long ? length * 4 : length;
}

PathResult RunBulk(PathScenario scenario, SendOpcode opcode, bool is_long) {
  scenario.opcode = opcode;
  scenario.message_bytes = 256 * kKib;
  scenario.queue_depth = 32;
  scenario.length = LengthFor(scenario.path, is_long);
  return PathRun(scenario).Run();
}

void AppendGoodput(std::string& table, const PathResult& result) {
  Append(table, "  %5.1f %5.1f %5.2f", result.SumPercent(), result.resent_percent, result.offered);
}

// One flow: WRITE, READ, and a TCP flow alone on the same path.
void AppendOneFlow(std::string& table, const PathScenario& scenario, const char* note,
                   bool is_long) {
  AppendPath(table, scenario.path);
  Append(table, " %-14s", note);
  AppendGoodput(table, RunBulk(scenario, SendOpcode::kRdmaWrite, is_long));
  AppendGoodput(table, RunBulk(scenario, SendOpcode::kRdmaRead, is_long));
  PathScenario tcp = scenario;
  tcp.flows = 0;
  tcp.tcp_flows = 1;
  tcp.length = LengthFor(scenario.path, is_long);
  Append(table, "  %5.1f\n", PathRun(tcp).Run().tcp_percents[0]);
}

void AppendOneFlowBlock(std::string& table, bool is_long) {
  table +=
      "\nOne flow. Goodput in % of the link, packets sent before in % of those sent, and what was\n"
      "sent in links: WRITE, READ; goodput of TCP cubic alone (a model).\n\n"
      " rate RTT ms  KiB                       WRITE                READ           TCP\n";
  const auto add = [&](uint64_t kbps, int64_t round_trip_us, uint32_t queue_kib) {
    AppendOneFlow(table, {.path = Path(kbps, Microseconds(round_trip_us), queue_kib * kKib)}, "",
                  is_long);
  };
  for (const int64_t round_trip_us : {1'000, 10'000, 40'000}) {
    for (const uint32_t queue_kib : {32, 256, 1'024}) add(k100M, round_trip_us, queue_kib);
  }
  add(k1G, 100, 32);
  add(k1G, 1'000, 32);
  add(k1G, 1'000, 256);
  add(k1G, 10'000, 256);
  add(k1G, 40'000, 1'024);
  if (!is_long) return;
  for (const int64_t round_trip_us : {100, 1'000, 10'000}) {
    for (const uint32_t queue_kib : {256, 1'024, 4'096}) add(k10G, round_trip_us, queue_kib);
  }
}

void AppendLossBlock(std::string& table, bool is_long) {
  table += "\nThe same with random loss, queue 4 MiB\n\n";
  struct Cell {
    int64_t round_trip_us;
    uint32_t ppm;
    const char* note;
  };
  for (const Cell& cell : {Cell{100, 1'000, "0.1% lost"}, Cell{1'000, 1'000, "0.1% lost"},
                           Cell{1'000, 10'000, "1% lost"}, Cell{1'000, 30'000, "3% lost"},
                           Cell{10'000, 100, "0.01% lost"}, Cell{10'000, 10'000, "1% lost"}}) {
    PathScenario scenario{.path = Path(k1G, Microseconds(cell.round_trip_us), 4 * kMib)};
    scenario.path.loss_ppm = cell.ppm;
    AppendOneFlow(table, scenario, cell.note, is_long);
  }
}

void AppendReorderingBlock(std::string& table, bool is_long) {
  table += "\nThe same with reordering, nothing lost at random\n\n";
  struct Cell {
    uint64_t kbps;
    int64_t round_trip_us;
    uint32_t ppm;
    int64_t late_us;
    const char* note;
  };
  for (const Cell& cell :
       {Cell{k1G, 1'000, 10'000, 200, "1% +200us"}, Cell{k1G, 1'000, 500'000, 20, "50% +20us"},
        Cell{k100M, 10'000, 10'000, 2'000, "1% +2ms"},
        Cell{k100M, 10'000, 500'000, 2'000, "50% +2ms"}}) {
    PathScenario scenario{.path = Path(cell.kbps, Microseconds(cell.round_trip_us), 4 * kMib)};
    scenario.path.reorder_ppm = cell.ppm;
    scenario.path.reorder_delay = Microseconds(cell.late_us);
    AppendOneFlow(table, scenario, cell.note, is_long);
  }
  PathScenario scenario{.path = Path(k1G, Milliseconds(1), kMib)};
  scenario.path.jitter = Milliseconds(2);
  AppendOneFlow(table, scenario, "jitter 2 ms", is_long);
}

void AppendBusyHostsBlock(std::string& table, bool is_long) {
  table +=
      "\nThe same between programs that share their processors: run and wait for so many us in "
      "the\n"
      "mean\n\n";
  struct Cell {
    uint64_t kbps;
    int64_t round_trip_us;
    uint32_t queue_kib;
    int64_t runs_us;
    int64_t waits_us;
    const char* note;
  };
  for (const Cell& cell : {Cell{k100M, 100, 32, 2'000, 200, "2000, 200"},
                           Cell{k100M, 100, 32, 2'000, 1'000, "2000, 1000"},
                           Cell{k100M, 1'000, 256, 2'000, 2'000, "2000, 2000"},
                           Cell{k1G, 100, 32, 2'000, 200, "2000, 200"},
                           Cell{k1G, 100, 256, 2'000, 1'000, "2000, 1000"},
                           Cell{k1G, 1'000, 256, 2'000, 1'000, "2000, 1000"},
                           Cell{k1G, 1'000, 256, 1'000, 4'000, "1000, 4000"},
                           Cell{k1G, 10'000, 1'024, 2'000, 2'000, "2000, 2000"}}) {
    PathScenario scenario{
        .path = Path(cell.kbps, Microseconds(cell.round_trip_us), cell.queue_kib * kKib)};
    scenario.processor = {Microseconds(cell.runs_us), Microseconds(cell.waits_us)};
    AppendOneFlow(table, scenario, cell.note, is_long);
  }
}

void AppendSeveral(std::string& table, PathScenario scenario, SendOpcode opcode, const char* note) {
  scenario.opcode = opcode;
  const PathResult result = PathRun(scenario).Run();
  AppendPath(table, scenario.path);
  Append(table, " %-14s %3u %3u  %5.1f %5.2f %5.1f %5.2f %3u ", note, scenario.flows,
         scenario.tcp_flows, result.SumPercent(), result.JainIndex(), result.resent_percent,
         result.offered, result.broken);
  for (const double percent : result.tcp_percents) Append(table, " %5.1f", percent);
  table += "\n";
}

void AppendSeveralBlock(std::string& table, bool is_long) {
  table +=
      "\nSeveral flows: ours, of TCP; sum of ours, Jain index of ours, packets sent before, links\n"
      "offered, connections lost; goodput of each TCP flow\n\n";
  const auto length = [is_long](int64_t ms) { return Milliseconds(is_long ? ms * 5 : ms); };
  const auto add = [&](uint32_t flows, uint32_t queue_kib, uint64_t kbps, int64_t ms) {
    AppendSeveral(table,
                  {.path = Path(kbps, Milliseconds(1), queue_kib * kKib),
                   .flows = flows,
                   .length = length(ms)},
                  SendOpcode::kRdmaWrite, "WRITE");
  };
  add(2, 256, k100M, 3'000);
  add(4, 4'096, k100M, 3'000);
  add(8, 64, k100M, 3'000);
  add(8, 256, k100M, 3'000);
  add(32, 1'024, k100M, 3'000);
  add(4, 1'024, k1G, 500);
  AppendSeveral(
      table,
      {.path = Path(k100M, Milliseconds(1), 256 * kKib), .flows = 8, .length = length(3'000)},
      SendOpcode::kRdmaRead, "READ");
  for (const uint32_t flows : {8u, 32u}) {
    AppendSeveral(table,
                  {.path = Path(k1G, Microseconds(100), 256 * kKib),
                   .queue_depth = 1,
                   .flows = flows,
                   .length = length(300)},
                  SendOpcode::kRdmaWrite, "incast");
  }
  const auto beside_tcp = [&](uint32_t queue_kib, uint64_t kbps, uint32_t each, int64_t ms) {
    AppendSeveral(table,
                  {.path = Path(kbps, Milliseconds(1), queue_kib * kKib),
                   .flows = each,
                   .tcp_flows = each,
                   .length = length(ms)},
                  SendOpcode::kRdmaWrite, "beside TCP");
  };
  beside_tcp(64, k100M, 1, 5'000);
  beside_tcp(256, k100M, 1, 5'000);
  beside_tcp(1'024, k100M, 1, 5'000);
  beside_tcp(256, k100M, 2, 5'000);
  beside_tcp(256, k1G, 1, 2'000);
  beside_tcp(1'024, k1G, 1, 2'000);
}

void AppendOutageBlock(std::string& table) {
  table +=
      "\nOutage at 100 Mbit/s, RTT 1 ms, 7 retries: how long, ACK timeout; when data moves again\n"
      "after its end\n\n";
  struct Cell {
    int64_t outage_ms;
    uint8_t timeout;
    const char* name;
  };
  for (const Cell& cell : {Cell{300, 14, "67 ms"}, Cell{500, 14, "67 ms"}, Cell{600, 14, "67 ms"},
                           Cell{1'000, 18, "1.07 s"}, Cell{3'000, 18, "1.07 s"}}) {
    PathScenario scenario{.path = Path(k100M, Milliseconds(1), 256 * kKib),
                          .timeout = cell.timeout,
                          .length = Milliseconds(cell.outage_ms + 1'500)};
    scenario.path.outage_begin = Time{} + Milliseconds(200);
    scenario.path.outage_end = scenario.path.outage_begin + Milliseconds(cell.outage_ms);
    const PathResult result = PathRun(scenario).Run();
    Append(table, "%6lld ms %8s ", static_cast<long long>(cell.outage_ms), cell.name);
    if (result.broken != 0) {
      table += " the connection is lost\n";
    } else {
      const Time end = scenario.path.outage_end;
      Append(table, " %6.1f ms\n",
             static_cast<double>((result.first_completion_after_outage - end).ns) * 1e-6);
    }
  }
}

}  // namespace

std::string PathTable(bool is_long) {
  std::string table =
      "Reliable connections of uroce through a bottleneck with a drop-tail queue, in virtual "
      "time.\n"
      "Path MTU 1024: headers leave 92.6 % of the link. TCP has packets of 1448 bytes: 95.6 %.\n";
  AppendOneFlowBlock(table, is_long);
  AppendLossBlock(table, is_long);
  AppendReorderingBlock(table, is_long);
  AppendBusyHostsBlock(table, is_long);
  AppendSeveralBlock(table, is_long);
  AppendOutageBlock(table);
  return table;
}

}  // namespace uroce::transport::simulation
