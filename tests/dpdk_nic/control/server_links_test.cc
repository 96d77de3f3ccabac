// The services of uroced's server for clients: links, calls of the switch, neighbours.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <string>

#include "dpdk_nic/control/client.h"
#include "dpdk_nic/control/server.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

using transport::Gid;
using transport::Qpn;

constexpr Gid kGroup = Gid::FromIpv4({239, 1, 1, 5});
constexpr Gid kHost = Gid::FromIpv4({192, 0, 2, 7});
constexpr Gid kOtherHost = Gid::FromIpv4({192, 0, 2, 8});
constexpr transport::MacAddress kMac = {2, 0, 0, 0, 0, 7};

Server::Config WithNic() {
  Server::Config config;
  config.fabric.has_wire = true;
  // registry_test tests that limit.
  config.limits.registry.offers_at_once = 1'000'000;
  return config;
}

// A server and two processes of its fabric.
class ServerLinksTest : public testing::Test {
 protected:
  ServerLinksTest() : block_a_(a_.Attach()), block_b_(b_.Attach()) {}

  // Returns when the server has handled all messages of `peer`.
  void AwaitServer(Peer& peer) {
    peer.AskForLink(0xffff'ffff);
    EXPECT_EQ(peer.HearAmongOthers<LinkAnswer>().error, EHOSTUNREACH);
    host_.Do([](Server&) {});
  }
  void SayNeighbor(const Gid& gid, bool is_known) {
    host_.server().OnNeighbor({.gid = gid, .mac = kMac, .is_known = is_known, .reserved = 0});
  }

  ServerHost host_{WithNic()};
  Peer a_{host_.fabric()};
  Peer b_{host_.fabric()};
  const Block block_a_;
  const Block block_b_;
};

TEST_F(ServerLinksTest, OfferIsPassedOnWithItsDescriptors) {
  a_.AskForLink(block_b_, 17);
  EXPECT_EQ(b_.Hear<LinkOffer>().block, block_a_);
  for (const size_t descriptor : {0, 1}) {
    uint64_t number = 0;
    EXPECT_EQ(read(b_.TakeDescriptor(descriptor).get(), &number, sizeof number),
              ssize_t{sizeof number});
    EXPECT_EQ(number, 17u);
  }
  const auto answer = a_.Hear<LinkAnswer>();
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.block, block_b_);
  EXPECT_EQ(host_.CountLinks(), 1u);
}

TEST_F(ServerLinksTest, ServerKeepsNoDescriptorOfALink) {
  const int before = OpenDescriptors();
  a_.AskForLink(block_b_);
  a_.Hear<LinkAnswer>();
  b_.Hear<LinkOffer>();
  b_.TakeDescriptor(0).reset();
  b_.TakeDescriptor(1).reset();
  AwaitServer(a_);
  AwaitDescriptors(before);
}

TEST_F(ServerLinksTest, LinkToAnAbsentProcessIsRefused) {
  a_.AskForLink(block_a_ == 1'000 ? 999 : 1'000);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EHOSTUNREACH);
  const Notice notice = a_.Hear<Notice>();
  EXPECT_NE(std::string(notice.sentence.data()).find("on another fabric"), std::string::npos);
  a_.AskForLink(block_a_);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EINVAL);
  a_.AskForLink(0xffff'ffff);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EHOSTUNREACH);
  a_.AskForLink(block_a_ == 1'000 ? 999 : 1'000);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EHOSTUNREACH) << "told of once";
  a_.AskForLink(block_b_);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, 0);
}

TEST_F(ServerLinksTest, OfTwoThatAskAtOnceOneGetsTheOffer) {
  host_.Do([&](Server&) {  // the server serves neither request before both were sent
    a_.AskForLink(block_b_);
    b_.AskForLink(block_a_);
  });
  ASSERT_TRUE(WaitReadable(a_.channel().fd()) && WaitReadable(b_.channel().fd()));
  Block asker = 0;
  host_.Do([&](Server& server) { asker = server.registry().links().begin()->second.asker; });
  Peer& first = asker == block_a_ ? a_ : b_;
  Peer& second = asker == block_a_ ? b_ : a_;
  EXPECT_EQ(first.Hear<LinkAnswer>().error, 0);
  EXPECT_EQ(second.Hear<LinkOffer>().block, asker) << "before the answer";
  EXPECT_EQ(second.Hear<LinkAnswer>().error, EALREADY);

  second.AskForLink(asker, 1, /*offers_received=*/1);
  EXPECT_EQ(second.Hear<LinkAnswer>().error, 0) << "it has lost the link that it was offered";
  EXPECT_EQ(first.Hear<LinkOffer>().block, asker == block_a_ ? block_b_ : block_a_);
}

TEST_F(ServerLinksTest, LinkIsForgottenWithAProcess) {
  a_.AskForLink(block_b_);
  a_.Hear<LinkAnswer>();
  {
    Peer c(host_.fabric());
    a_.AskForLink(c.Attach());
    a_.Hear<LinkAnswer>();
    EXPECT_EQ(host_.CountLinks(), 2u);
  }
  while (host_.CountClients() > 2) usleep(1'000);
  EXPECT_EQ(host_.CountLinks(), 1u);
}

TEST_F(ServerLinksTest, EndlessOffersDoNotDisconnectASlowReader) {
  const int before = OpenDescriptors();
  bool was_told_to_wait = false;
  for (int i = 0; i < 10'000 && !was_told_to_wait; ++i) {
    a_.AskForLink(block_b_);
    was_told_to_wait = a_.Hear<LinkAnswer>().error == EAGAIN;
  }
  EXPECT_TRUE(was_told_to_wait);
  AwaitDescriptors(before + 2);  // the server keeps those of one offer, and no others
  while (b_.HearAmongOthers<LinkOffer>(), !b_.HearsNothingNow()) {
  }
  AwaitServer(b_);
  a_.AskForLink(block_b_);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, 0);
}

TEST_F(ServerLinksTest, SwitchGetsTheOtherEndOfAnUplink) {
  auto offer = RingLink::Create();
  ASSERT_TRUE(offer);
  a_.Say(LinkRequest{kSwitchBlock, 0},
         std::array<int, 2>{offer->memory.get(), offer->socket.get()});
  const auto answer = a_.Hear<LinkAnswer>();
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.block, kSwitchBlock);
  EXPECT_EQ(host_.frame_switch().TakeCalls(), (Calls{"ConnectUplink " + std::to_string(block_a_)}));
  const auto uplink = host_.frame_switch().TakeUplink();
  ASSERT_NE(uplink, nullptr);
  offer->link->Acquire()[0] = 42;
  offer->link->Commit(60);
  offer->link->Flush();
  ASSERT_EQ(uplink->Receive().size(), 60u);
  EXPECT_EQ(uplink->Receive()[0], 42);
}

TEST_F(ServerLinksTest, UplinkThatBrokeIsLogged) {
  host_.server().OnBrokenUplink(block_a_);
  host_.server().OnBrokenUplink(block_a_ == 1'000 ? 999 : 1'000);  // gone meanwhile
  host_.Do([](Server&) {});
  EXPECT_NE(host_.Log().find("process " + std::to_string(getpid())), std::string::npos);
}

TEST_F(ServerLinksTest, UplinkWithInvalidDescriptorsIsRefused) {
  a_.AskForLink(kSwitchBlock);
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EPROTO);
  EXPECT_EQ(host_.frame_switch().TakeCalls(), Calls{});
  EXPECT_EQ(host_.CountLinks(), 0u);
}

// A descriptor could keep its receiver waiting in close().
TEST_F(ServerLinksTest, NonLinkDescriptorsAreRefusedAndNotForwarded) {
  auto offer = RingLink::Create();
  ASSERT_TRUE(offer);
  const UniqueFd no_memory = NumberedFd(1);
  for (const Block block : {kSwitchBlock, block_b_}) {
    a_.Say(LinkRequest{block, 0}, std::array<int, 2>{no_memory.get(), offer->socket.get()});
    EXPECT_EQ(a_.Hear<LinkAnswer>().error, EPROTO);
    LingeringSocket hostile;
    host_.Do([&](Server&) {  // so that the server has the last descriptor of the socket
      a_.Say(LinkRequest{block, 0}, std::array<int, 2>{offer->memory.get(), hostile.slow.get()});
      hostile.slow.reset();
    });
    EXPECT_EQ(a_.Hear<LinkAnswer>().error, EPROTO);
  }
  EXPECT_TRUE(b_.HearsNothingNow());
  EXPECT_EQ(host_.frame_switch().TakeCalls(), Calls{});
}

TEST_F(ServerLinksTest, RequestsAreForwardedToTheSwitch) {
  const std::string a = std::to_string(block_a_);
  a_.Say(Declare{Qpn{77}, Qpn{5}, kHost});
  a_.Say(Forget{Qpn{78}});
  a_.Say(JoinGroup{kGroup});
  a_.Say(LeaveGroup{kGroup});
  a_.Say(Listen{{1'234, {}, 0}, 0, 1});
  a_.Say(Unlisten{{1'235, {}, 0}});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().local, Qpn{77});
  EXPECT_EQ(a_.Hear<GroupAnswer>().group, kGroup);
  EXPECT_EQ(a_.Hear<ListenAnswer>().claim.service_id, 1'234u);
  EXPECT_EQ(a_.Hear<UnlistenAnswer>().claim.service_id, 1'235u);
  AwaitServer(a_);
  EXPECT_EQ(host_.frame_switch().TakeCalls(),
            (Calls{"Declare " + a + " 77", "Forget " + a + " 78", "JoinGroup " + a + " 5",
                   "LeaveGroup " + a + " 5", "Listen " + a + " 1234", "Unlisten " + a + " 1235"}));
}

TEST_F(ServerLinksTest, XrcDomainIsOfTheProcessesThatHaveOpenedIt) {
  const UniqueFd file(memfd_create("domain", MFD_CLOEXEC));
  const std::array<int, OpenXrcDomain::kDescriptors> fds = {file.get()};
  a_.Say(OpenXrcDomain{7, {}, 1, 0}, fds);
  const auto opened = a_.Hear<XrcDomainAnswer>();
  EXPECT_EQ(opened.handle, 7u);
  EXPECT_EQ(opened.error, 0);
  b_.Say(OpenXrcDomain{8, {}, 0, 0}, fds);
  EXPECT_EQ(b_.Hear<XrcDomainAnswer>().key, opened.key);
  a_.Say(CloseXrcDomain{7});
  EXPECT_EQ(a_.Hear<XrcDomainClosed>().handle, 7u);
  b_.channel().Reset({});
  while (host_.CountClients() != 1) usleep(1'000);
  a_.Say(OpenXrcDomain{9, {}, 0, 0}, fds);
  EXPECT_EQ(a_.Hear<XrcDomainAnswer>().error, EAGAIN);
}

TEST_F(ServerLinksTest, ErrorsOfTheSwitchAreAnswered) {
  host_.frame_switch().AnswerWith(EBUSY);
  a_.Say(Declare{});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, EBUSY);
  a_.Say(JoinGroup{});
  EXPECT_EQ(a_.Hear<GroupAnswer>().error, EBUSY);
  a_.Say(Listen{});
  EXPECT_EQ(a_.Hear<ListenAnswer>().error, EBUSY);
  auto offer = RingLink::Create();
  a_.Say(LinkRequest{kSwitchBlock, 0},
         std::array<int, 2>{offer->memory.get(), offer->socket.get()});
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, EBUSY);
  EXPECT_EQ(host_.CountLinks(), 0u);
}

TEST_F(ServerLinksTest, SwitchForgetsADepartedClient) {
  Block block;
  {
    Peer c(host_.fabric());
    block = c.Attach();
  }
  while (host_.CountClients() > 2) usleep(1'000);
  EXPECT_EQ(host_.frame_switch().TakeCalls(), Calls{"Remove " + std::to_string(block)});
}

TEST_F(ServerLinksTest, KnownNeighborIsSentToAllClients) {
  a_.Say(Resolve{kHost});
  AwaitServer(a_);
  EXPECT_EQ(host_.frame_switch().TakeCalls(), Calls{"Resolve 0 7"});
  SayNeighbor(kHost, true);
  for (Peer* peer : {&a_, &b_}) {
    const auto neighbor = peer->Hear<Neighbor>();
    EXPECT_EQ(neighbor.gid, kHost);
    EXPECT_EQ(neighbor.mac, kMac);
    EXPECT_TRUE(neighbor.is_known);
  }
}

TEST_F(ServerLinksTest, UnreachableIsReportedToTheAskingProcesses) {
  a_.Say(Resolve{kHost});
  AwaitServer(a_);
  SayNeighbor(kHost, false);
  EXPECT_FALSE(a_.Hear<Neighbor>().is_known);
  SayNeighbor(kHost, false);
  SayNeighbor(kOtherHost, true);
  EXPECT_EQ(a_.Hear<Neighbor>().gid, kOtherHost) << "the answer came once";
  EXPECT_EQ(b_.Hear<Neighbor>().gid, kOtherHost) << "it had not asked";
}

TEST_F(ServerLinksTest, ResolveOfANonHostGidIsAnsweredAtOnce) {
  for (const Gid& gid : {Gid{}, kGroup}) {
    a_.Say(Resolve{gid});
    EXPECT_FALSE(a_.Hear<Neighbor>().is_known);
  }
  EXPECT_EQ(host_.frame_switch().TakeCalls(), Calls{});
}

// The address of the host with this number.
Gid NumberedHost(size_t number) {
  return Gid::FromIpv4({10, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)});
}

TEST_F(ServerLinksTest, SwitchIsAskedForAFewAddressesAtATime) {
  for (size_t i = 0; i < 40; ++i) a_.Say(Resolve{NumberedHost(i)});
  a_.Say(Resolve{NumberedHost(3)});
  AwaitServer(a_);
  EXPECT_EQ(host_.frame_switch().TakeCalls().size(), Session::kMaxResolving);
  SayNeighbor(NumberedHost(3), true);
  SayNeighbor(NumberedHost(4), false);
  SayNeighbor(NumberedHost(39), true);
  for (const size_t i : {3, 4, 39}) EXPECT_EQ(a_.Hear<Neighbor>().gid, NumberedHost(i));
  EXPECT_EQ(host_.frame_switch().TakeCalls(), (Calls{"Resolve 0 16", "Resolve 0 17"}));
  for (size_t i = 0; i < 39; ++i) SayNeighbor(NumberedHost(i), false);
  for (size_t i = 0; i < 37; ++i) a_.Hear<Neighbor>();
  AwaitServer(a_);
  EXPECT_EQ(host_.frame_switch().TakeCalls().size(), 39 - Session::kMaxResolving - 2);
  EXPECT_TRUE(a_.HearsNothingNow());
}

TEST_F(ServerLinksTest, AddressesThatOneWaitsForAreLimited) {
  const size_t limit = Session::kMaxResolving + Session::kMaxToResolve;
  for (size_t i = 0; i < limit; ++i) a_.Say(Resolve{NumberedHost(i)});
  AwaitServer(a_);
  a_.Say(Resolve{NumberedHost(limit)});
  const auto neighbor = a_.Hear<Neighbor>();
  EXPECT_EQ(neighbor.gid, NumberedHost(limit));
  EXPECT_FALSE(neighbor.is_known);
  SayNeighbor(NumberedHost(0), false);
  EXPECT_EQ(a_.Hear<Neighbor>().gid, NumberedHost(0));
  a_.Say(Resolve{NumberedHost(limit)});
  AwaitServer(a_);
  EXPECT_TRUE(a_.HearsNothingNow()) << "there is room again";
}

TEST_F(ServerLinksTest, PortStateIsSentToAllClients) {
  host_.server().OnWireState(true);
  EXPECT_EQ(a_.Hear<PortState>().is_up, 1u);
  EXPECT_EQ(b_.Hear<PortState>().is_up, 1u);
  host_.server().OnWireState(true);  // no change
  host_.server().OnWireState(false);
  EXPECT_EQ(a_.Hear<PortState>().is_up, 0u);
  EXPECT_NE(host_.Log().find("the port is down"), std::string::npos);

  Peer late(host_.fabric());
  ASSERT_TRUE(late.SayHello());
  EXPECT_FALSE(late.Hear<Welcome>().wire_is_up);
}

TEST_F(ServerLinksTest, PortAddressesAreSentToAllClients) {
  const std::vector<Gid> gids = {Gid::LinkLocal({}), {}, Gid::FromIpv4({192, 0, 2, 8})};
  host_.server().OnGids(gids);
  for (Peer* peer : {&a_, &b_}) {
    const auto told = peer->Hear<Addresses>();
    EXPECT_EQ(std::vector<Gid>(told.gids.begin(), told.gids.begin() + 3), gids);
    EXPECT_TRUE(told.gids[3].IsZero());
  }
  Peer late(host_.fabric());
  ASSERT_TRUE(late.SayHello());
  const auto welcome = late.Hear<Welcome>();
  ASSERT_EQ(welcome.gid_count, 3u);
  EXPECT_EQ(welcome.gids[2], gids[2]);
}

// A process could pass descriptors over a link, which a thread that moves frames in the peer would
// have to close.
TEST_F(ServerLinksTest, LinkTakesNoDescriptors) {
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16
  SocketPair link;
  int is_on = 0;
  socklen_t length = sizeof is_on;
  if (getsockopt(link.b.get(), SOL_SOCKET, kPassRights, &is_on, &length) != 0) {
    GTEST_SKIP() << "needs Linux 6.16";
  }
  ASSERT_EQ(is_on, 1);
  const UniqueFd memory = SealedMemory();
  a_.Say(LinkRequest{block_b_, 0}, std::array<int, 2>{memory.get(), link.b.get()});
  EXPECT_EQ(a_.Hear<LinkAnswer>().error, 0);
  ASSERT_EQ(getsockopt(link.b.get(), SOL_SOCKET, kPassRights, &is_on, &length), 0);
  EXPECT_EQ(is_on, 0);
}

TEST_F(ServerLinksTest, ClientThatDoesNotReadIsCutOff) {
  while (host_.CountClients() == 2) {
    for (int i = 0; i < 100; ++i) SayNeighbor(kHost, true);
    while (!a_.HearsNothingNow()) a_.Hear<Neighbor>();
  }
  EXPECT_TRUE(b_.HearsTheEnd());
  EXPECT_NE(host_.Log().find("does not read"), std::string::npos);
  a_.Say(JoinGroup{});
  EXPECT_EQ(a_.HearAmongOthers<GroupAnswer>().error, 0);
}

TEST(ServerWithoutNicTest, NoNeighborCanBeAskedForAnAddress) {
  ServerHost host;
  Peer peer(host.fabric());
  peer.Attach();
  peer.Say(Resolve{kHost});
  EXPECT_FALSE(peer.Hear<Neighbor>().is_known);
  EXPECT_EQ(host.frame_switch().TakeCalls(), Calls{});
}

void ServeUntilAttached(ControlClient& client, uint32_t attachments) {
  MessageChannel::Incoming incoming;
  while (client.attachments() < attachments) {
    client.Serve();
    client.Take(incoming);
    usleep(1'000);
  }
}

TEST(ServerRestartTest, ProcessesKeepTheirBlocks) {
  const std::string fabric = UniqueFabricName();
  const UniqueFd memory = SealedMemory();
  auto host = std::make_unique<ServerHost>(Server::Config{}, fabric);
  const ControlClient::Options options{.fabric = fabric, .published_state_fd = memory.get()};
  ControlClient a(options), b(options);
  ServeUntilAttached(a, 1);
  ServeUntilAttached(b, 1);
  const Block block_a = a.welcome().block;
  const Block block_b = b.welcome().block;
  host.reset();
  host = std::make_unique<ServerHost>(Server::Config{}, fabric);
  ServeUntilAttached(b, 2);
  ServeUntilAttached(a, 2);
  EXPECT_EQ(a.welcome().block, block_a);
  EXPECT_EQ(b.welcome().block, block_b);
  Peer peer(fabric);
  const Block other = peer.Attach();
  EXPECT_TRUE(other != block_a && other != block_b);
}

TEST(ServerRestartTest, NewConnectionOfAProcessReplacesItsLast) {
  ServerHost host;
  Peer first(host.fabric());
  const Block block = first.Attach();
  Peer second(host.fabric());
  ASSERT_TRUE(second.SayResume(block, first.claim()));
  EXPECT_EQ(second.Hear<Welcome>().block, block);
  EXPECT_TRUE(first.HearsTheEnd());
  EXPECT_EQ(host.CountClients(), 1u);
  EXPECT_EQ(host.frame_switch().TakeCalls(), Calls{"Remove " + std::to_string(block)});
}

TEST(ServerRestartTest, BlockIsNotResumedWithoutItsClaim) {
  ServerHost host;
  Peer victim(host.fabric());
  const Block block = victim.Attach();
  Peer other(host.fabric());
  other.Attach();
  const UniqueFd folder = OpenFolderOf(host.fabric());
  const UniqueFd opened_again(openat(folder.get(), std::to_string(block).c_str(), O_RDONLY));
  ASSERT_TRUE(opened_again);
  for (const int claim : {other.claim(), opened_again.get(), victim.channel().fd()}) {
    Peer thief(host.fabric());
    ASSERT_TRUE(thief.SayResume(block, claim));
    EXPECT_EQ(thief.Hear<Refused>().error, ESTALE);
  }
  victim.Say(JoinGroup{});
  victim.Hear<GroupAnswer>();
}

// The claim identifies a block's owner, not the pid: here two processes have pid 1.
TEST(ServerRestartTest, ProcessOfAnotherPidNamespaceResumesItsBlock) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make a pid namespace";
  ServerHost host;
  Peer victim(host.fabric());
  const Block block = victim.Attach();
  const pid_t child = host.Fork([&] {
    if (unshare(CLONE_NEWPID) != 0) return 1;
    const pid_t inside = fork();
    if (inside == 0) {
      Peer first(host.fabric());
      const Block own = first.Attach();
      Peer thief(host.fabric());
      thief.SayResume(block, first.claim());
      if (thief.Hear<Refused>().error != ESTALE) _exit(2);
      Peer again(host.fabric());
      again.SayResume(own, first.claim());
      _exit(again.Hear<Welcome>().block == own ? 0 : 3);
    }
    int status = 0;
    return waitpid(inside, &status, 0) == inside ? WEXITSTATUS(status) : 4;
  });
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  victim.Say(JoinGroup{});
  victim.Hear<GroupAnswer>();
}

// Attaches, asks for a link and sends messages until it is killed.
[[noreturn]] void BeBusy(const std::string& fabric, int ready) {
  Peer peer(fabric);
  const Block block = peer.Attach();
  [[maybe_unused]] const ssize_t written = write(ready, "", 1);
  const UniqueFd memory = SealedMemory();
  const SocketPair sockets;
  const std::array<int, 2> offered = {memory.get(), sockets.b.get()};
  MessageChannel::Incoming incoming;
  for (Block other = kFirstBlock;; other = other % kLastBlock + 1) {
    if (other != block) peer.Say(LinkRequest{other, 0}, offered);
    peer.Say(Declare{});
    while (peer.channel().Receive(incoming) == MessageChannel::Status::kOk) {
    }
    peer.channel().Flush();
  }
}

TEST(ServerKillTest, ProcessesMayDieAtAnyMoment) {
  ServerHost host;
  Peer stays(host.fabric());
  stays.Attach();
  const int before = OpenDescriptors();
  for (int round = 0; round < 20; ++round) {
    std::array<int, 2> ready;
    ASSERT_EQ(pipe(ready.data()), 0);
    std::array<pid_t, 3> children;
    for (pid_t& child : children) {
      child = host.Fork([&]() -> int { BeBusy(host.fabric(), ready[1]); });
    }
    char byte;
    for (size_t i = 0; i < children.size(); ++i) ASSERT_EQ(read(ready[0], &byte, 1), 1);
    for (const pid_t child : children) {
      usleep(static_cast<useconds_t>(random() % 3'000));
      kill(child, SIGKILL);
    }
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
  }
  while (host.CountClients() > 1) usleep(1'000);
  EXPECT_EQ(host.CountLinks(), 0u);
  AwaitDescriptors(before);
  stays.Say(JoinGroup{});
  EXPECT_EQ(stays.HearAmongOthers<GroupAnswer>().error, 0);
}

}  // namespace
}  // namespace uroce::nic::control
