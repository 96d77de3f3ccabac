// The text of a status, for any values that processes of the fabric publish.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tools/cli/counter_names.h"
#include "tools/cli/printable.h"
#include "tools/cli/status_json.h"
#include "tools/cli/status_table.h"

namespace uroce::cli {
namespace {

TEST(PrintableTest, TerminalIsNotDisturbed) {
  EXPECT_EQ(Printable("plain text"), "plain text");
  EXPECT_EQ(Printable("\x1b[31m\r\n\x7f"), "?[31m???");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "?31m")
      << "CSI in one character";
  EXPECT_EQ(Printable("\xc3\xa9\xff"), "\xc3\xa9?");
}

template <size_t N>
void Set(std::array<char, N>& field, std::string_view text) {
  text.copy(field.data(), field.size());
}

// A fabric of one process that has one queue pair.
FabricStatus SmallFabric() {
  FabricStatus status;
  status.fabric = "small";
  status.daemon.pid = 42;
  status.daemon.mtu_bytes = 4'200;
  status.daemon.uptime_ms = 61'000;
  ClientStatus client{};
  client.client.block = 7;
  client.client.pid = 4711;
  Set(client.client.command, "worker");
  client.endpoint.emplace();
  transport::QueuePairRecord record;
  record.qpn = {0x01c005};
  record.attributes.state = transport::QpState::kReadyToSend;
  record.attributes.path_mtu = transport::Mtu::k4096;
  record.attributes.destination_qpn = {0x020001};
  record.attributes.address.destination_gid = transport::Gid::FromIpv4({10, 0, 0, 9});
  client.endpoint->queue_pairs.push_back(record);
  status.clients.push_back(client);
  return status;
}

TEST(StatusTextTest, QueuePairIsARow) {
  const std::string text = StatusAsTable(SmallFabric());
  EXPECT_NE(text.find("fabric 'small': uroced 42, for 61 s, MTU 4200\n"), std::string::npos);
  EXPECT_NE(text.find("  0x01c005  4711  RC    RTS    0x020001  10.0.0.9  4096 "),
            std::string::npos)
      << text;
}

TEST(StatusTextTest, FramesThatWereDroppedAreExplained) {
  FabricStatus status = SmallFabric();
  EXPECT_EQ(StatusAsTable(status).find("dropped:"), std::string::npos);
  status.daemon.counters.dropped_malformed = 3;
  status.daemon.counters.dropped_no_room = 4;
  EXPECT_NE(StatusAsTable(status).find("dropped: 3 malformed, 4 without room\n"),
            std::string::npos);
}

TEST(StatusTextTest, FramesThatThePortLostAreExplained) {
  FabricStatus status = SmallFabric();
  status.daemon.has_wire = 1;
  EXPECT_EQ(StatusAsTable(status).find("dropped by the port:"), std::string::npos);
  status.daemon.counters.port[nic::PortDrop::kNotSent] = 2;
  status.daemon.counters.port[nic::PortDrop::kOverflow] = 5;
  EXPECT_NE(StatusAsTable(status).find("dropped by the port: 2 not sent, 5 overflow\n"),
            std::string::npos);
  EXPECT_NE(StatusAsJson(status).find("\"overflow\": 5"), std::string::npos);
}

TEST(StatusTextTest, FramesThatTheSocketsOfAProcessLostAreExplained) {
  FabricStatus status = SmallFabric();
  EXPECT_EQ(StatusAsTable(status).find("dropped by the sockets"), std::string::npos);
  status.clients[0].client.wire_drops[nic::PortDrop::kOverflow] = 7;
  EXPECT_NE(StatusAsTable(status).find("dropped by the sockets of 4711: 7 overflow\n"),
            std::string::npos);
  EXPECT_NE(StatusAsJson(status).find("\"overflow\": 7"), std::string::npos);
}

TEST(StatusTextTest, LinkToAProcessThatIsNotShownHasItsBlock) {
  FabricStatus status = SmallFabric();
  status.links = {{7, 9}, {0, 7}};
  const std::string text = StatusAsTable(status);
  EXPECT_NE(text.find("  4711 worker - block 9\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  uroced - 4711 worker\n"), std::string::npos) << text;
}

TEST(StatusTextTest, TheHalvesOfXrcAreTwoTypes) {
  EXPECT_EQ(NameOf(transport::QpType::kXrcSend), "XRC_SEND");
  EXPECT_EQ(NameOf(transport::QpType::kXrcReceive), "XRC_RECV");
}

// The tables of counters are the only place where a counter is named.
TEST(StatusTextTest, EveryCounterIsInJsonAndExplained) {
  const std::string json = StatusAsJson(SmallFabric());
  const std::string explained = CounterNames();
  const auto check = [&](std::string_view name) {
    EXPECT_NE(json.find("\"" + std::string(name) + "\": 0"), std::string::npos) << name;
    EXPECT_NE(explained.find("| `" + std::string(name) + "` |"), std::string::npos) << name;
  };
  for (const auto& row : transport::kQueuePairCounters) check(row.name);
  for (size_t i = 1; i < transport::kDropReasons; ++i) check(transport::kDropNames[i].name);
  for (const auto& row : transport::cm::kCounters) check(row.name);
  for (const auto& row : transport::kPeerCounters) check(row.name);
  for (const auto& row : nic::kPortCounters) check(row.name);
  for (const auto& row : nic::kPortDropNames) check(row.name);
  for (const auto& row : nic::control::kSwitchCounters) check(row.name);
  for (const auto& row : nic::control::kSwitchDrops) check(row.name);
  EXPECT_NE(json.find("\"DREQ\": 0"), std::string::npos);
}

TEST(StatusTextTest, CountersOfAQueuePairAreItsOwn) {
  FabricStatus status = SmallFabric();
  status.clients[0].endpoint->counters.probes = 7;
  status.clients[0].endpoint->queue_pairs[0].counters.probes = 5;
  const std::string json = StatusAsJson(status);
  const size_t total = json.find("\"probes\": 7");
  ASSERT_NE(total, std::string::npos);
  EXPECT_NE(json.find("\"probes\": 5", total), std::string::npos);
}

TEST(StatusTextTest, ProcessWhoseStateCannotBeReadIsShown) {
  FabricStatus status = SmallFabric();
  status.clients[0].endpoint.reset();
  EXPECT_NE(StatusAsTable(status).find("  ?    ?     ?         ?       ?\n"), std::string::npos);
  EXPECT_NE(StatusAsJson(status).find("\"queue_pairs\": null"), std::string::npos);
}

TEST(StatusTextTest, AnyStateOfAnyProcessCanBePrinted) {
  FabricStatus status = SmallFabric();
  ClientStatus& client = status.clients[0];
  // Sets no bool: a value other than 0 and 1 is undefined in a bool, and the text contains none.
  transport::QueuePairRecord& record = client.endpoint->queue_pairs[0];
  record.type = static_cast<transport::QpType>(0xff);
  record.attributes.state = static_cast<transport::QpState>(0xff);
  record.attributes.path_mtu = static_cast<transport::Mtu>(0xff);
  memset(static_cast<void*>(&client.client), 0xff, sizeof client.client);
  memset(static_cast<void*>(&status.daemon), 0xff, sizeof status.daemon);
  const std::string table = StatusAsTable(status);
  EXPECT_NE(table.find("  ?     ?      "), std::string::npos) << table;
  EXPECT_EQ(std::count_if(table.begin(), table.end(),
                          [](char c) { return static_cast<unsigned char>(c) >= 0x7f; }),
            0);
  const std::string json = StatusAsJson(status);
  EXPECT_NE(json.find("\"state\": \"?\""), std::string::npos);
  EXPECT_NE(json.find("\"path_mtu\": 0"), std::string::npos);
}

}  // namespace
}  // namespace uroce::cli
