// Which connections uroced accepts and refuses. Real sockets, and a server in this process.
#include "dpdk_nic/control/server.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <set>

#include "dpdk_nic/control/block_claim.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

using std::chrono::milliseconds;
using transport::Gid;

constexpr Gid kAddress = Gid::FromIpv4({192, 0, 2, 1});
constexpr Gid kForeignAddress = Gid::FromIpv4({192, 0, 2, 9});

FabricDescription WithNic() {
  FabricDescription fabric;
  fabric.mtu_bytes = 1'500;
  fabric.has_wire = true;
  fabric.wire_is_up = true;
  fabric.mac = {2, 0, 0, 0, 0, 7};
  fabric.gids = {Gid::LinkLocal(fabric.mac), kAddress};
  return fabric;
}

Refused RefusalOf(const std::string& fabric, const Hello& hello) {
  Peer peer(fabric);
  peer.SayHello(hello);
  const Refused refused = peer.Hear<Refused>();
  EXPECT_TRUE(peer.HearsTheEnd());
  return refused;
}

TEST(ServerTest, FabricWithoutNicIsDescribed) {
  ServerHost host;
  Peer peer(host.fabric());
  ASSERT_TRUE(peer.SayHello());
  const auto welcome = peer.Hear<Welcome>();
  EXPECT_GE(welcome.block, kFirstBlock);
  EXPECT_LE(welcome.block, kLastBlock);
  EXPECT_EQ(welcome.mtu_bytes, 4'200u);
  EXPECT_FALSE(welcome.has_wire);
  EXPECT_EQ(welcome.gid_count, 0u);
  EXPECT_EQ(host.CountClients(), 1u);
}

// The numbers that one uroced gave out do not reveal those of the next.
TEST(ServerTest, EachServerBeginsAtABlockOfItsOwn) {
  std::set<uint32_t> first_blocks;
  for (int i = 0; i < 8; ++i) {
    ServerHost host;
    Peer peer(host.fabric());
    ASSERT_TRUE(peer.SayHello());
    first_blocks.insert(peer.Hear<Welcome>().block);
  }
  EXPECT_GT(first_blocks.size(), 2u);
}

TEST(ServerTest, FabricWithNicIsDescribed) {
  ServerHost host({.fabric = WithNic()});
  Peer peer(host.fabric());
  ASSERT_TRUE(peer.SayHello({1'000, kAddress}));
  const auto welcome = peer.Hear<Welcome>();
  EXPECT_EQ(welcome.mtu_bytes, 1'000u);
  EXPECT_TRUE(welcome.has_wire);
  EXPECT_TRUE(welcome.wire_is_up);
  EXPECT_EQ(welcome.mac, WithNic().mac);
  ASSERT_EQ(welcome.gid_count, 2u);
  EXPECT_EQ(welcome.gids[1], kAddress);
}

TEST(ServerTest, EachProcessHasABlockOfItsOwn) {
  ServerHost host;
  Peer a(host.fabric()), b(host.fabric());
  EXPECT_NE(a.Attach(), b.Attach());
}

TEST(ServerTest, MtuHasToFitTheNic) {
  ServerHost host({.fabric = WithNic()});
  for (const uint32_t mtu_bytes : {1'501u, 575u, 0xffff'ffffu}) {
    const auto refused = RefusalOf(host.fabric(), HelloWithMtu(mtu_bytes));
    EXPECT_EQ(refused.error, EMSGSIZE);
    EXPECT_NE(strstr(refused.sentence.data(), "from 576 to 1500"), nullptr);
  }
  EXPECT_EQ(host.CountClients(), 0u);
}

TEST(ServerTest, WithoutNicTheMtuIsTheProcesses) {
  ServerHost host;
  Peer peer(host.fabric());
  ASSERT_TRUE(peer.SayHello(HelloWithMtu(9'600)));
  EXPECT_EQ(peer.Hear<Welcome>().mtu_bytes, 9'600u);
  EXPECT_EQ(RefusalOf(host.fabric(), HelloWithMtu(9'601)).error, EMSGSIZE);
}

TEST(ServerTest, AddressHasToBeTheNics) {
  ServerHost with({.fabric = WithNic()});
  EXPECT_EQ(RefusalOf(with.fabric(), HelloWithIp(kForeignAddress)).error, EADDRNOTAVAIL);
  ServerHost without;
  Peer peer(without.fabric());
  EXPECT_NE(peer.Attach(HelloWithIp(kForeignAddress)), 0u);
}

TEST(ServerTest, PublishedStateHasToBeSealedMemory) {
  ServerHost host;
  const UniqueFd unsealed(memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd no_memory = NumberedFd(1);
  for (const int fd : {unsealed.get(), no_memory.get()}) {
    Peer peer(host.fabric());
    ASSERT_TRUE(peer.Say(Hello{}, std::array<int, 1>{fd}));
    EXPECT_EQ(peer.Hear<Refused>().error, EPROTO);
    EXPECT_TRUE(peer.HearsTheEnd());
  }
}

TEST(ServerTest, RefusedUserGetsASentence) {
  ServerHost host({.admits = [](uid_t uid) { return uid != geteuid(); }});
  Peer peer(host.fabric());
  peer.SayHello();
  const auto refused = peer.Hear<Refused>();
  EXPECT_EQ(refused.error, EACCES);
  EXPECT_NE(strstr(refused.sentence.data(), "--users"), nullptr);
  EXPECT_TRUE(peer.HearsTheEnd());
  EXPECT_NE(host.Log().find("was refused"), std::string::npos);
}

// Connects to root's fabric as another user. Returns 0 if it was refused.
int TryAsAnotherUser(const std::string& fabric) {
  constexpr uid_t kNobodyUid = 65'534;
  if (setresuid(kNobodyUid, kNobodyUid, kNobodyUid) != 0) return 1;
  auto connection = ConnectToFabric(fabric);
  if (!connection) return 2;
  MessageChannel channel(std::move(connection->socket));
  MessageChannel::Incoming incoming;
  if (!WaitReadable(channel.fd())) return 3;
  if (channel.Receive(incoming) != MessageChannel::Status::kOk) return 4;
  const auto refused = incoming.As<Refused>();
  return refused && refused->error == EACCES ? 0 : 5;
}

TEST(ServerTest, UserIsIdentifiedByTheKernel) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  ServerHost host({.admits = [](uid_t uid) { return uid == 0; }});
  const pid_t child = host.Fork([&] { return TryAsAnotherUser(host.fabric()); });
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  Peer peer(host.fabric());
  EXPECT_NE(peer.Attach(), 0u);
}

TEST(ServerTest, TooManyProcessesOfAUserAreRefused) {
  ServerHost host({.limits = {.registry = {.clients_per_user = 2}}});
  Peer a(host.fabric()), b(host.fabric());
  a.Attach();
  {
    Peer gone(host.fabric());
    gone.Attach();
    EXPECT_EQ(RefusalOf(host.fabric(), {}).error, EDQUOT);
  }
  EXPECT_NE(b.Attach(), 0u);
}

TEST(ServerTest, GarbageEndsTheConnection) {
  ServerHost host;
  Peer peer(host.fabric());
  const std::string garbage(1'000, 'x');
  ASSERT_EQ(send(peer.channel().fd(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 1'000);
  EXPECT_TRUE(peer.HearsTheEnd());
}

TEST(ServerTest, ProcessHasToSayHelloFirst) {
  ServerHost host;
  Peer resolving(host.fabric()), unlistening(host.fabric()), answering(host.fabric());
  resolving.Say(Resolve{kAddress});
  unlistening.Say(Unlisten{});
  answering.Say(LeaseGranted{0});
  EXPECT_TRUE(resolving.HearsTheEnd());
  EXPECT_TRUE(unlistening.HearsTheEnd());
  EXPECT_TRUE(answering.HearsTheEnd());
  EXPECT_TRUE(host.frame_switch().TakeCalls().empty());
}

TEST(ServerTest, ClientSaysHelloOnceAndIsNoUroced) {
  ServerHost host;
  Peer twice(host.fabric()), holding(host.fabric()), welcoming(host.fabric());
  for (Peer* peer : {&twice, &holding, &welcoming}) peer->Attach();
  twice.SayHello();
  holding.Say(LeaseRequest{});
  welcoming.Say(Welcome{}, std::array<int, 1>{welcoming.channel().fd()});
  for (Peer* peer : {&twice, &holding, &welcoming}) EXPECT_TRUE(peer->HearsTheEnd());
  EXPECT_EQ(host.CountClients(), 0u);
  EXPECT_NE(host.Log().find("makes no sense after Hello"), std::string::npos);
}

TEST(ServerTest, TransientClientMakesOneRequest) {
  ServerHost host;
  Peer peer(host.fabric());
  peer.Say(LeaseRequest{});
  peer.Hear<LeaseGranted>();
  peer.SayHello();
  EXPECT_TRUE(peer.HearsTheEnd());
}

TEST(ServerTest, ConnectionWithoutHelloIsClosedAfterAWhile) {
  ServerHost host({.limits = {.handshake_timeout = milliseconds(50)}});
  Peer client(host.fabric()), silent(host.fabric()), transient(host.fabric());
  client.Attach();
  transient.Say(LeaseRequest{});
  EXPECT_TRUE(silent.HearsTheEnd());
  EXPECT_TRUE(transient.HearsTheEnd());
  // If the handshake timeout still applied to the client, it would have expired first.
  client.Say(JoinGroup{});
  client.Hear<GroupAnswer>();
}

TEST(ServerTest, UnauthenticatedConnectionsOfAUserAreLimited) {
  ServerHost host({.limits = {.max_unauthenticated_per_user = 3}});
  Peer client(host.fabric());
  client.Attach();
  std::deque<Peer> unauthenticated;
  for (int i = 0; i < 3; ++i) unauthenticated.emplace_back(host.fabric());
  Peer another(host.fabric());
  EXPECT_TRUE(another.HearsTheEnd());
  unauthenticated[1].Attach();
  Peer later(host.fabric());
  EXPECT_NE(later.Attach(), 0u) << "there is room again";
}

TEST(ServerTest, TotalOfUnauthenticatedConnectionsIsLimited) {
  ServerHost host({.limits = {.max_unauthenticated = 2}});
  std::deque<Peer> unauthenticated;
  for (int i = 0; i < 4; ++i) unauthenticated.emplace_back(host.fabric());
  unauthenticated[3].SayHello();
  unauthenticated.pop_front();
  unauthenticated.pop_front();
  EXPECT_NE(unauthenticated.back().Hear<Welcome>().block, 0u);
}

TEST(ServerTest, ManyAtOnceAreAllLetIn) {
  ServerHost host({.limits = {.connections_per_interval = 7}});
  std::deque<Peer> peers;
  for (int i = 0; i < 100; ++i) peers.emplace_back(host.fabric()).SayHello();
  for (Peer& peer : peers) peer.Hear<Welcome>();
  EXPECT_EQ(host.CountClients(), 100u);
}

TEST(ServerTest, DepartedClientsLeaveNothingBehind) {
  ServerHost host;
  Peer stays(host.fabric());
  stays.Attach();
  const int before = OpenDescriptors();
  {
    std::deque<Peer> peers;
    for (int i = 0; i < 30; ++i) peers.emplace_back(host.fabric()).Attach();
    EXPECT_GT(OpenDescriptors(), before);
  }
  while (host.CountClients() > 1) usleep(1'000);
  AwaitDescriptors(before);
}

TEST(ServerTest, BlockThatAnotherProcessClaimsIsNotGivenOut) {
  const std::string fabric = UniqueFabricName();
  std::deque<UniqueFd> claims;
  {
    const auto last = FabricListener::Open(fabric);
    for (Block block = kFirstBlock; block <= kLastBlock; ++block) {
      // One user may not have so many, so the claims belong to many users.
      if (block != 500) claims.push_back(BlockClaims(last->folder()).Give(block, block));
    }
  }
  ServerHost host({}, fabric);
  Peer peer(fabric);
  EXPECT_EQ(peer.Attach(), 500u);
  EXPECT_EQ(RefusalOf(fabric, {}).error, ENOSPC);
}

}  // namespace
}  // namespace uroce::nic::control
