// uroced's answers to status requests.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "dpdk_nic/control/server.h"
#include "dpdk_nic/control/status_messages.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

struct Report {
  StatusDaemon daemon;
  std::map<Block, StatusClient> clients;
  std::set<std::pair<Block, Block>> links;
  bool is_complete = false;
};

// Asks for a report and reads it, one message a millisecond if `slowly`.
Report Ask(const std::string& fabric, bool slowly = false) {
  Report report;
  auto connection = ConnectToFabric(fabric);
  if (!connection) return report;
  MessageChannel channel(std::move(connection->socket));
  channel.Send(StatusRequest{0});
  MessageChannel::Incoming incoming;
  while (!report.is_complete) {
    const auto status = channel.Receive(incoming);
    if (status == MessageChannel::Status::kClosed) break;
    if (status == MessageChannel::Status::kNothing && !WaitReadable(channel.fd())) break;
    if (status == MessageChannel::Status::kNothing) continue;
    if (slowly) usleep(100);
    if (const auto daemon = incoming.As<StatusDaemon>()) report.daemon = *daemon;
    if (const auto client = incoming.As<StatusClient>()) report.clients[client->block] = *client;
    if (const auto link = incoming.As<StatusLink>()) {
      report.links.insert({link->block, link->other_block});
    }
    report.is_complete = incoming.As<StatusEnd>().has_value();
  }
  return report;
}

std::string ProcessName() {
  std::string name(16, '\0');
  EXPECT_EQ(prctl(PR_GET_NAME, name.data()), 0);
  return name.c_str();
}

TEST(ServerStatusTest, DaemonIsDescribed) {
  Server::Config config;
  config.fabric.mtu_bytes = 1'500;
  config.fabric.has_wire = true;
  config.fabric.wire_is_up = true;
  config.fabric.mac = {2, 0, 0, 0, 0, 7};
  config.fabric.gids = {transport::Gid::LinkLocal(config.fabric.mac)};
  config.fabric.port = "net_af_packet0,iface=" + std::string(100, 'x');
  ServerHost host(config);
  const Report report = Ask(host.fabric());
  ASSERT_TRUE(report.is_complete);
  EXPECT_EQ(report.daemon.pid, getpid());
  EXPECT_FALSE(report.daemon.is_private);
  EXPECT_TRUE(report.daemon.has_wire);
  EXPECT_TRUE(report.daemon.wire_is_up);
  EXPECT_EQ(report.daemon.mtu_bytes, 1'500u);
  EXPECT_EQ(report.daemon.mac, config.fabric.mac);
  ASSERT_EQ(report.daemon.gid_count, 1u);
  EXPECT_EQ(report.daemon.gids[0], config.fabric.gids[0]);
  EXPECT_EQ(report.daemon.clients, 0u);
  EXPECT_EQ(std::string(report.daemon.port.data()), config.fabric.port.substr(0, 63));
  EXPECT_EQ(report.daemon.counters.frames_to_wire, 1u);
  EXPECT_EQ(report.daemon.counters.dropped_no_room, 8u);
  EXPECT_EQ(report.daemon.counters.port[PortDrop::kOverflow], 2u);
  EXPECT_TRUE(report.clients.empty());
}

TEST(ServerStatusTest, ClientsAndLinksAreShown) {
  ServerHost host;
  Peer a(host.fabric()), b(host.fabric());
  const Block block_a = a.Attach();
  const Block block_b = b.Attach();
  a.AskForLink(block_b);
  a.Hear<LinkAnswer>();
  auto offer = RingLink::Create();
  b.Say(LinkRequest{kSwitchBlock, 0}, std::array<int, 2>{offer->memory.get(), offer->socket.get()});
  b.HearAmongOthers<LinkAnswer>();

  const Report report = Ask(host.fabric());
  ASSERT_TRUE(report.is_complete);
  EXPECT_EQ(report.daemon.clients, 2u);
  ASSERT_EQ(report.clients.size(), 2u);
  const StatusClient& client = report.clients.at(block_a);
  EXPECT_EQ(client.pid, getpid());
  EXPECT_EQ(client.uid, geteuid());
  EXPECT_EQ(client.declared_connections, block_a);
  EXPECT_EQ(client.groups, 3u);
  EXPECT_EQ(std::string(client.command.data()), ProcessName());
  EXPECT_EQ(report.links, (std::set<std::pair<Block, Block>>{
                              {std::min(block_a, block_b), std::max(block_a, block_b)},
                              {kSwitchBlock, block_b}}));
}

TEST(ServerStatusTest, ClientIsShownWithItsPublishedState) {
  ServerHost host;
  Peer peer(host.fabric());
  const UniqueFd memory = SealedMemory();
  ASSERT_EQ(pwrite(memory.get(), "state", 5, 0), 5);
  peer.Say(Hello{}, std::array<int, 1>{memory.get()});
  peer.Hear<Welcome>();
  Peer asker(host.fabric());
  asker.Say(StatusRequest{0});
  asker.HearAmongOthers<StatusClient>();
  const UniqueFd shown = asker.TakeDescriptor(0);
  char bytes[5];
  ASSERT_EQ(pread(shown.get(), bytes, 5, 0), 5);
  EXPECT_EQ(memcmp(bytes, "state", 5), 0);
}

TEST(ServerStatusTest, LongReportWaitsForASlowReader) {
  ServerHost host;
  std::deque<Peer> peers;
  std::deque<Block> blocks;
  size_t links = 0;
  for (int i = 0; i < 60; ++i) {
    blocks.push_back(peers.emplace_back(host.fabric()).Attach());
    for (int j = 0; j < i; ++j, ++links) {
      peers[i].AskForLink(blocks[j]);
      EXPECT_EQ(peers[i].Hear<LinkAnswer>().error, 0);
      peers[j].Hear<LinkOffer>();
    }
  }
  const Report report = Ask(host.fabric(), /*slowly=*/true);
  ASSERT_TRUE(report.is_complete);
  EXPECT_EQ(report.clients.size(), 60u);
  EXPECT_EQ(report.links.size(), links);
}

TEST(ServerStatusTest, ReportGoesOnWhenItsClientsGo) {
  ServerHost host;
  std::deque<Peer> peers;
  for (int i = 0; i < 400; ++i) peers.emplace_back(host.fabric()).Attach();
  Peer asker(host.fabric());
  asker.Say(StatusRequest{0});
  EXPECT_EQ(asker.Hear<StatusDaemon>().clients, 400u);
  peers.clear();
  while (host.CountClients() > 0) usleep(1'000);
  asker.HearAmongOthers<StatusEnd>();
}

TEST(ServerStatusTest, OtherUsersSeeOnlyTheirOwnProcesses) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ServerHost host;
  Peer roots(host.fabric()), roots_other(host.fabric());
  roots.Attach();
  // The links of root's processes: to each other and to the switch.
  roots.AskForLink(roots_other.Attach());
  EXPECT_EQ(roots.Hear<LinkAnswer>().error, 0);
  auto offer = RingLink::Create();
  roots.Say(LinkRequest{kSwitchBlock, 0},
            std::array<int, 2>{offer->memory.get(), offer->socket.get()});
  EXPECT_EQ(roots.Hear<LinkAnswer>().error, 0);
  const pid_t child = host.Fork([&] {
    if (setresuid(kNobodyUid, kNobodyUid, kNobodyUid) != 0) return 1;
    const Report report = Ask(host.fabric());
    if (!report.is_complete || report.daemon.clients != 2) return 2;
    return report.clients.empty() && report.links.empty() ? 0 : 3;
  });
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace uroce::nic::control
