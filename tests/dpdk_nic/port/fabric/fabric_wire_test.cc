// A port of a fabric that has a NIC, and the messages that it repeats to a new uroced.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "dpdk_nic/port/fabric/fabric_neighbors.h"
#include "dpdk_nic/port/fabric/fabric_port.h"
#include "tests/dpdk_nic/port/fabric/fabric_port_fixture.h"

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using transport::Gid;
using transport::MacAddress;
using transport::Qpn;
using transport::Time;
using ServiceState = PacketPort::ServiceState;

constexpr Gid kRemote = Gid::FromIpv4({10, 0, 0, 2});
constexpr Gid kGroup = Gid::FromIpv4({239, 1, 2, 3});
constexpr Gid kAlternate = Gid::FromIpv4({192, 0, 2, 199});
constexpr MacAddress kRemoteMac = {2, 2, 2, 2, 2, 2};
constexpr PacketPort::Service kService{.id = {0x0106'1d2f}, .address = {}};

class FabricWireTest : public FabricPortTest {
 protected:
  FabricWireTest() : FabricPortTest(FakeUroced::WiredFabric()) {}

  static PacketPort::Path WirePath(Qpn local, Qpn remote = {0x123}, const Gid& alternate = {}) {
    return {.route = Route::kWire,
            .local = local,
            .remote = remote,
            .remote_gid = kRemote,
            .alternate_gid = alternate};
  }
  FakeUroced::Client& ClientOf(const FabricPort& port) { return uroced_->client(BlockOf(port)); }

  // Asks again while the answer is kPending, up to ten times.
  template <class Ask>
  PathState AskUntilAnswered(FabricPort& port, Ask ask) {
    for (int i = 0; i < 10; ++i) {
      if (const PathState state = ask(); state != PathState::kPending) return state;
      ServeAll(port);
    }
    return PathState::kPending;
  }
  PathState Prepare(FabricPort& port, const PacketPort::Path& path) {
    return AskUntilAnswered(port, [&] { return port.PreparePath(path); });
  }
  PathState Join(FabricPort& port, const Gid& group) {
    return AskUntilAnswered(port, [&] { return port.JoinGroup(group); });
  }

  void StopUroced() { uroced_.reset(); }
  void StartUroced(FabricPort& port, control::Welcome like = FakeUroced::WiredFabric()) {
    uroced_ = std::make_unique<FakeUroced>(fabric_, like);
    const uint32_t before = port.attachments();
    while (port.attachments() == before) ServeAll(port);
  }
};

TEST_F(FabricWireTest, PortIsTheNic) {
  const auto port = NewPort();
  EXPECT_EQ(port->mac(), like_.mac);
  EXPECT_EQ(port->mtu(), 1'500u);
  EXPECT_TRUE(port->IsLocal(like_.gids[1]));
  EXPECT_FALSE(port->IsLocal(kRemote));
}

TEST_F(FabricWireTest, AddressThatAProgramChoseIsAskedFor) {
  FabricPort::Options options = OptionsWithIp(kRemote);
  options.needs_ip = true;
  options.mtu_bytes = 1'400;
  FabricPort port(options);
  uroced_->Attach(port);
  EXPECT_EQ(ClientOf(port).said.hello.ip, kRemote);
  EXPECT_EQ(ClientOf(port).said.hello.mtu_bytes, 1'400u);
}

TEST_F(FabricWireTest, PortFollowsTheCarrier) {
  const auto port = NewPort();
  EXPECT_TRUE(port->active());
  ClientOf(*port).channel.Send(control::PortState{0});
  port->ServeLink();
  EXPECT_FALSE(port->active());
  EXPECT_FALSE(port->link_up());
  ClientOf(*port).channel.Send(control::PortState{1});
  port->ServeLink();
  EXPECT_TRUE(port->active());
}

// Another thread's pass takes the message from uroced, but the sleeper has to tell the program.
TEST_F(FabricWireTest, CarrierChangeReadByAnotherThreadWakesTheSleeper) {
  const auto port = NewPort();
  ASSERT_TRUE(port->BeginSleep());
  ClientOf(*port).channel.Send(control::PortState{0});
  port->ServeLink();
  EXPECT_FALSE(port->active());
  EXPECT_TRUE(IsReadable(port->wait_fd()));
  port->EndSleep();
  EXPECT_FALSE(IsReadable(port->wait_fd()));
}

TEST_F(FabricWireTest, UplinkIsMadeWhenTheWireIsNeeded) {
  const auto port = NewPort();
  ServeAll(*port);
  EXPECT_EQ(ClientOf(*port).uplink, nullptr);
  EXPECT_TRUE(SendByte(*port, Route::kWire, 1));
  ServeAll(*port);
  RingLink* uplink = ClientOf(*port).uplink.get();
  ASSERT_NE(uplink, nullptr);
  ASSERT_FALSE(uplink->Receive().empty());
  EXPECT_EQ(uplink->Receive()[0], 1) << "it has waited";

  uplink->Waive(transport::IcrcUse::kWaivedWithHeaders);
  EXPECT_EQ(uplink->icrc_use(), transport::IcrcUse::kCarried) << "for it leaves the host";
  EXPECT_EQ(port->AcquireTransmit(Route::kWire).icrc, transport::IcrcUse::kCarried);
  uplink->Acquire()[0] = 2;
  uplink->Commit(62);
  EXPECT_EQ(Take(*port), (Taken{2, Route::kWire, transport::IcrcUse::kCarried}));
}

TEST_F(FabricWireTest, PathAcrossTheWireIsDeclaredAndForgotten) {
  const auto port = NewPort();
  EXPECT_EQ(Prepare(*port, WirePath({7}, {0x456})), PathState::kReady);
  ASSERT_EQ(ClientOf(*port).declared.size(), 1u);
  EXPECT_EQ(ClientOf(*port).declared[0].local, Qpn{7});
  EXPECT_EQ(ClientOf(*port).declared[0].remote, Qpn{0x456});
  EXPECT_EQ(ClientOf(*port).declared[0].remote_gid, kRemote);
  EXPECT_EQ(Prepare(*port, WirePath({7}, {0x456})), PathState::kReady);
  EXPECT_EQ(ClientOf(*port).declared.size(), 1u) << "it is known";
  EXPECT_EQ(Prepare(*port, WirePath({7}, {0x456}, kAlternate)), PathState::kReady);
  ASSERT_EQ(ClientOf(*port).declared.size(), 2u);
  EXPECT_EQ(ClientOf(*port).declared[1].remote_gid, kRemote);
  EXPECT_EQ(ClientOf(*port).declared[1].alternate_gid, kAlternate);

  port->ForgetPath({8});
  port->ForgetPath({7});
  port->ForgetPath({7});
  ServeAll(*port);
  EXPECT_EQ(ClientOf(*port).forgotten, std::vector<Qpn>{{7}});
}

// The user of a datagram queue pair may name no address: datagrams from other hosts come unasked.
TEST_F(FabricWireTest, ReceiverOfDatagramsHasAnUplinkAndIsDeclared) {
  const auto port = NewPort();
  const PacketPort::Path datagrams{
      .route = Route::kWire, .local = {7}, .remote = {}, .remote_gid = {}};
  EXPECT_EQ(Prepare(*port, datagrams), PathState::kReady);
  EXPECT_NE(ClientOf(*port).uplink, nullptr);
  ASSERT_EQ(ClientOf(*port).declared.size(), 1u);
  EXPECT_EQ(ClientOf(*port).declared[0].local, Qpn{7});
  EXPECT_TRUE(ClientOf(*port).declared[0].IsForDatagrams());
}

TEST_F(FabricWireTest, ReconnectedQueuePairReplacesItsDeclaration) {
  const auto port = NewPort();
  EXPECT_EQ(Prepare(*port, WirePath({7}, {1})), PathState::kReady);
  EXPECT_EQ(Prepare(*port, WirePath({7}, {2})), PathState::kReady);
  EXPECT_EQ(ClientOf(*port).declared.size(), 2u);
  EXPECT_TRUE(ClientOf(*port).forgotten.empty());
}

TEST_F(FabricWireTest, ConnectionOfAnotherProcessIsRefusedUntilItIsFree) {
  const auto port = NewPort();
  uroced_->declare_error = [](const control::Declare&) { return EBUSY; };
  EXPECT_EQ(Prepare(*port, WirePath({7})), PathState::kRefused);
  uroced_->declare_error = {};
  EXPECT_EQ(Prepare(*port, WirePath({7})), PathState::kReady);
}

// The answer on its way belongs to the earlier declaration.
TEST_F(FabricWireTest, AnswerToAForgottenDeclarationIsNotTakenForTheNext) {
  const auto port = NewPort();
  EXPECT_EQ(Prepare(*port, WirePath({1})), PathState::kReady) << "makes the uplink";
  EXPECT_EQ(port->PreparePath(WirePath({7}, {1})), PathState::kPending);
  port->ForgetPath({7});
  EXPECT_EQ(port->PreparePath(WirePath({7}, {2})), PathState::kPending);
  uroced_->declare_error = [](const control::Declare& connection) {
    return connection.remote == Qpn{2} ? EBUSY : 0;
  };
  EXPECT_EQ(Prepare(*port, WirePath({7}, {2})), PathState::kRefused);
}

TEST_F(FabricWireTest, GroupIsJoinedOnceAndLeftOnce) {
  const auto port = NewPort();
  EXPECT_EQ(Join(*port, kGroup), PathState::kReady);
  EXPECT_EQ(Join(*port, kGroup), PathState::kReady);
  EXPECT_EQ(ClientOf(*port).joined, std::vector<Gid>{kGroup});
  port->LeaveGroup(kGroup);
  port->LeaveGroup(kGroup);
  ServeAll(*port);
  EXPECT_EQ(ClientOf(*port).left, std::vector<Gid>{kGroup});
  EXPECT_EQ(Join(*port, kGroup), PathState::kReady);
  EXPECT_EQ(ClientOf(*port).joined.size(), 2u);
}

TEST_F(FabricWireTest, LimitOfGroupsIsARefusal) {
  const auto port = NewPort();
  uroced_->join_error = [](const Gid&) { return ENOSPC; };
  EXPECT_EQ(Join(*port, kGroup), PathState::kRefused);
  port->LeaveGroup(kGroup);
  ServeAll(*port);
  EXPECT_TRUE(ClientOf(*port).left.empty()) << "no process joined";
}

// uroced passes on only so many requests for links in a second, and may be busy.
TEST_F(FabricWireTest, ServicesAndGroupsWaitForAnUplinkThatCannotBeHadAtPresent) {
  for (const ErrnoValue error : {EAGAIN, EHOSTUNREACH}) {
    const auto port = NewPort();
    uroced_->link_error = [&](Block, Block) { return error; };
    EXPECT_EQ(port->ReserveService(kService), ServiceState::kPending);
    ServeAll(*port);
    EXPECT_EQ(port->ReserveService(kService), ServiceState::kPending);
    EXPECT_EQ(port->JoinGroup(kGroup), PathState::kPending);
    uroced_->link_error = {};
    ServiceState state;
    while ((state = port->ReserveService(kService)) == ServiceState::kPending) ServeAll(*port);
    EXPECT_EQ(state, ServiceState::kReserved);
    EXPECT_EQ(Join(*port, kGroup), PathState::kReady);
  }
}

TEST_F(FabricWireTest, ServiceWithoutAnUplinkIsRefused) {
  const auto port = NewPort();
  uroced_->link_error = [](Block, Block) { return ENOMEM; };
  // The port asks anew when the refusal is 10 ms old.
  ServiceState state;
  while ((state = port->ReserveService(kService)) == ServiceState::kPending) ServeAll(*port);
  EXPECT_EQ(state, ServiceState::kNoRoom);
}

TEST_F(FabricWireTest, ServiceWaitsForAUrocedThatIsStartedAnew) {
  const auto port = NewPort();
  EXPECT_EQ(Join(*port, kGroup), PathState::kReady);
  StopUroced();
  ServeAll(*port);
  EXPECT_EQ(port->ReserveService(kService), ServiceState::kPending);
  StartUroced(*port);
  ServiceState state;
  while ((state = port->ReserveService(kService)) == ServiceState::kPending) ServeAll(*port);
  EXPECT_EQ(state, ServiceState::kReserved);
}

TEST_F(FabricWireTest, AnswersAboutServicesTellWhyNot) {
  const auto port = NewPort();
  ErrnoValue error = EADDRINUSE;
  uroced_->listen_error = [&](const control::Listen&) { return error; };
  ServiceState state;
  while ((state = port->ReserveService(kService)) == ServiceState::kPending) ServeAll(*port);
  EXPECT_EQ(state, ServiceState::kInUse);
  error = ENOSPC;
  while ((state = port->ReserveService(kService)) == ServiceState::kPending) ServeAll(*port);
  EXPECT_EQ(state, ServiceState::kNoRoom);
}

TEST_F(FabricWireTest, ProcessesGoOnTalkingWithoutUroced) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  StopUroced();
  for (uint8_t i = 0; i < 100; ++i) {
    ServeAll(*a, *b);
    ASSERT_TRUE(SendByte(*a, *b, i));
    ASSERT_EQ(TakeByte(*b), i);
  }
  EXPECT_EQ(a->counters().transmit_dropped_no_link, 0u);
}

TEST_F(FabricWireTest, FramesToTheWireAreDroppedWithoutUroced) {
  const auto port = NewPort();
  EXPECT_EQ(Prepare(*port, WirePath({7})), PathState::kReady);
  StopUroced();
  ServeAll(*port);
  EXPECT_TRUE(SendByte(*port, Route::kWire, 1));
  EXPECT_EQ(port->counters().transmit_dropped_no_link, 1u);
  EXPECT_FALSE(port->failed());
}

TEST_F(FabricWireTest, EverythingIsSaidAgainToTheNextUroced) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  const control::Block block = BlockOf(*a);
  EXPECT_EQ(Prepare(*a, WirePath({7})), PathState::kReady);
  EXPECT_EQ(Prepare(*a, WirePath({8})), PathState::kReady);
  a->ForgetPath({8});
  EXPECT_EQ(Join(*a, kGroup), PathState::kReady);

  StopUroced();
  ServeAll(*a, *b);
  StartUroced(*a);
  ServeAll(*a);
  EXPECT_EQ(ClientOf(*a).said.block, block);
  EXPECT_EQ(BlockOf(*a), block);
  ASSERT_EQ(ClientOf(*a).declared.size(), 1u);
  EXPECT_EQ(ClientOf(*a).declared[0].local, Qpn{7});
  EXPECT_EQ(ClientOf(*a).joined, std::vector<Gid>{kGroup});
  ASSERT_NE(ClientOf(*a).uplink, nullptr);
  EXPECT_EQ(ClientOf(*a).requests, std::vector<control::Block>{control::kSwitchBlock});
  EXPECT_TRUE(SendByte(*a, Route::kWire, 9));
  EXPECT_EQ(ClientOf(*a).uplink->Receive()[0], 9);

  EXPECT_EQ(Prepare(*a, WirePath({7})), PathState::kReady);
  a->LeaveGroup(kGroup);
  ServeAll(*a);
  EXPECT_EQ(ClientOf(*a).left, std::vector<Gid>{kGroup});
}

// More declarations than the control socket takes at once.
TEST_F(FabricWireTest, ThousandsOfConnectionsAreSaidAgain) {
  constexpr uint32_t kConnections = 10'000;
  const auto port = NewPort();
  EXPECT_EQ(Prepare(*port, WirePath({0})), PathState::kReady);
  for (uint32_t left = kConnections; left != 0; ServeAll(*port)) {
    left = 0;
    for (uint32_t i = 1; i < kConnections; ++i) {
      if (port->PreparePath(WirePath({i}, {i})) != PathState::kReady) ++left;
    }
  }
  StopUroced();
  ServeAll(*port);
  StartUroced(*port);
  while (ClientOf(*port).declared.size() < kConnections) ServeAll(*port);
  PathState state;
  while ((state = Prepare(*port, WirePath({kConnections - 1}, {kConnections - 1}))) ==
         PathState::kPending) {
  }
  EXPECT_EQ(state, PathState::kReady);
  EXPECT_EQ(ClientOf(*port).declared.size(), kConnections);
}

TEST_F(FabricWireTest, UplinkIsRestoredOnlyIfThereWasOne) {
  const auto port = NewPort();
  StopUroced();
  ServeAll(*port);
  StartUroced(*port);
  ServeAll(*port);
  EXPECT_TRUE(ClientOf(*port).requests.empty());
}

TEST_F(FabricWireTest, PathRequestedWithoutDaemonIsMadeByTheNextDaemon) {
  const auto a = NewPort(), b = NewPort();
  StopUroced();
  ServeAll(*a, *b);
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kPending);
  ServeAll(*a, *b);
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kPending);
  StartUroced(*b);
  while (a->attachments() == 1) ServeAll(*a, *b);
  EXPECT_EQ(AskUntilAnswered(*a, [&] { return a->PreparePath(PathTo(*b)); }), PathState::kReady);
}

TEST_F(FabricWireTest, UnansweredLinkRequestIsRepeatedToTheNextDaemon) {
  const auto a = NewPort(), b = NewPort();
  uroced_->ignores_links = true;
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kPending);
  ServeAll(*a, *b);
  StopUroced();
  ServeAll(*a, *b);
  StartUroced(*b);
  while (a->attachments() == 1) ServeAll(*a, *b);
  ServeAll(*a, *b);
  EXPECT_EQ(ClientOf(*a).requests, std::vector<control::Block>{BlockOf(*b)});
  EXPECT_EQ(a->PreparePath(PathTo(*b)), PathState::kReady);
  EXPECT_TRUE(SendByte(*a, *b, 4));
  EXPECT_EQ(TakeByte(*b), 4);
}

TEST_F(FabricWireTest, OtherNicBehindTheNextUrocedIsADeadWire) {
  const auto a = NewPort(), b = NewPort();
  Link(*a, *b);
  StopUroced();
  ServeAll(*a, *b);
  control::Welcome other = FakeUroced::WiredFabric();
  other.mac[5] ^= 1;
  StartUroced(*a, other);
  EXPECT_FALSE(a->active());
  EXPECT_EQ(a->PreparePath(WirePath({7})), PathState::kUnreachable);
  EXPECT_EQ(a->mac(), like_.mac);
  EXPECT_TRUE(a->IsLocal(like_.gids[1]));
  EXPECT_TRUE(SendByte(*a, *b, 4));
  EXPECT_EQ(TakeByte(*b), 4);
}

TEST_F(FabricWireTest, PortFollowsTheAddresses) {
  const auto port = NewPort();
  EXPECT_EQ(port->TakeGids(), std::nullopt);
  control::Addresses addresses{};
  addresses.gids = {like_.gids[0], Gid{}, kRemote};
  ClientOf(*port).channel.Send(addresses);
  port->ServeLink();
  EXPECT_EQ(port->TakeGids(), (std::vector<Gid>{like_.gids[0], Gid{}, kRemote}));
  EXPECT_EQ(port->TakeGids(), std::nullopt) << "no news";
  EXPECT_FALSE(port->IsLocal(like_.gids[1]));
  EXPECT_FALSE(port->IsLocal({}));
  EXPECT_TRUE(port->IsLocal(kRemote));
  EXPECT_TRUE(port->active());
}

TEST_F(FabricWireTest, AddressesThatChangeWhileThereIsNoUrocedAreFollowedLater) {
  const auto port = NewPort();
  StopUroced();
  ServeAll(*port);
  control::Welcome other = FakeUroced::WiredFabric();
  other.gids[1] = kRemote;
  StartUroced(*port, other);
  EXPECT_TRUE(port->active());
  EXPECT_EQ(port->TakeGids(), (std::vector<Gid>{like_.gids[0], Gid{}, kRemote}));
}

class FabricNeighborsTest : public FabricWireTest {
 protected:
  void Tell(const Gid& gid, const MacAddress& mac, bool known = true) {
    ClientOf(*port_).channel.Send(control::Neighbor{gid, mac, known ? uint8_t{1} : uint8_t{0}, 0});
    ServeAll(*port_);
  }
  size_t questions() {
    ServeAll(*port_);
    return ClientOf(*port_).resolved.size();
  }

  const std::unique_ptr<FabricPort> port_ = NewPort();
  FabricNeighbors neighbors_{*port_};
  Time now_{5'000'000'000};
};

TEST_F(FabricNeighborsTest, HostOnTheWireIsAskedForAndThenKnown) {
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  EXPECT_EQ(questions(), 1u);
  EXPECT_EQ(ClientOf(*port_).resolved[0], kRemote);
  EXPECT_EQ(neighbors_.TakeChange(), std::nullopt);
  Tell(kRemote, kRemoteMac);
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), kRemoteMac);
  EXPECT_EQ(questions(), 1u);
  const auto change = neighbors_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->gid, kRemote);
  EXPECT_EQ(change->mac, kRemoteMac);
  EXPECT_EQ(neighbors_.TakeChange(), std::nullopt);
}

TEST_F(FabricNeighborsTest, ChangeIsTakenOnceAndRepetitionIsNoChange) {
  Tell(kRemote, kRemoteMac);
  Tell(kRemote, kRemoteMac);
  EXPECT_TRUE(neighbors_.TakeChange().has_value());
  EXPECT_FALSE(neighbors_.TakeChange().has_value());
  Tell(kRemote, {2, 3, 3, 3, 3, 3});
  EXPECT_TRUE(neighbors_.TakeChange().has_value());
}

TEST_F(FabricNeighborsTest, QuestionIsRepeatedButNotAllTheTime) {
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  Tell(kRemote, {}, /*known=*/false);
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  EXPECT_EQ(questions(), 1u);
  EXPECT_EQ(neighbors_.Resolve(now_ + transport::Milliseconds(1'000), kRemote), std::nullopt);
  EXPECT_EQ(questions(), 2u);
}

TEST_F(FabricNeighborsTest, HostNoLongerKnownIsQueriedAgain) {
  Tell(kRemote, kRemoteMac);
  Tell(kRemote, {}, /*known=*/false);
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  EXPECT_EQ(questions(), 1u);
}

TEST_F(FabricNeighborsTest, NextUrocedIsAskedAtOnce) {
  EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  StopUroced();
  ServeAll(*port_);
  StartUroced(*port_);
  ServeAll(*port_);
  EXPECT_EQ(questions(), 1u) << "by the port itself: uroced opens its way out when it is asked";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(neighbors_.Resolve(now_, kRemote), std::nullopt);
  EXPECT_EQ(questions(), 2u) << "though it was asked for a moment ago, and once";
}

TEST_F(FabricNeighborsTest, OwnAddressesNeedNoQuestion) {
  EXPECT_EQ(neighbors_.Resolve(now_, like_.gids[1]), like_.mac);
  EXPECT_EQ(questions(), 0u);
}

// A group may have members on other hosts, so uroced opens the wire for it.
TEST_F(FabricNeighborsTest, GroupIsNamedOnceAndNeedsNoAnswer) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(neighbors_.Resolve(now_, kGroup), MulticastMac(kGroup));
  EXPECT_EQ(questions(), 1u);
  Tell(kGroup, {}, /*known=*/false);
  EXPECT_EQ(neighbors_.Resolve(now_, kGroup), MulticastMac(kGroup));
  EXPECT_EQ(questions(), 1u);
}

TEST_F(FabricPortTest, WithoutAWireEveryNeighborFollowsFromItsGid) {
  const auto port = NewPort();
  FabricNeighbors neighbors(*port);
  EXPECT_EQ(neighbors.Resolve({}, kRemote), MacAddressFor(kRemote));
  ServeAll(*port);
  EXPECT_TRUE(uroced_->client(BlockOf(*port)).resolved.empty());
}

TEST_F(FabricPortTest, WithoutAWireWirePathIsUnreachable) {
  const auto port = NewPort();
  PacketPort::Path path = PathTo(*port);
  path.route = Route::kWire;
  EXPECT_EQ(port->PreparePath(path), PathState::kUnreachable);
  EXPECT_TRUE(port->IsLocal(kRemote));
}

}  // namespace
}  // namespace uroce::nic
