// The sockets that uroced gives to the processes of its fabric.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dpdk_nic/control/server.h"
#include "dpdk_nic/control/status_messages.h"
#include "dpdk_nic/control/wire_messages.h"
#include "tests/dpdk_nic/control/control_test_support.h"
#include "tests/dpdk_nic/control/server_host.h"

namespace uroce::nic::control {
namespace {

using transport::Gid;
using transport::Qpn;

constexpr Gid kHost = Gid::FromIpv4({10, 0, 0, 2});
constexpr Gid kOtherHost = Gid::FromIpv4({10, 0, 1, 2});

Server::Config ConfigWith(bool by_own_sockets) {
  Server::Config config;
  config.fabric.has_wire = config.fabric.wire_is_up = config.fabric.is_uplink = true;
  config.fabric.by_own_sockets = by_own_sockets;
  return config;
}

class WireSocketsTest : public testing::Test {
 protected:
  explicit WireSocketsTest(bool by_own_sockets = true)
      : host_(ConfigWith(by_own_sockets)), a_(host_.fabric()) {
    block_ = a_.Attach();
  }

  ServerHost host_;
  Peer a_;
  Block block_ = 0;
};

class UsersTest : public WireSocketsTest {
 protected:
  UsersTest() : WireSocketsTest(false) {}
};

TEST_F(WireSocketsTest, WireSocketsAreSentOnceAtTheFirstNamedHost) {
  host_.frame_switch().ShareSockets(2);
  a_.Say(Declare{Qpn{77}, Qpn{5}, kHost});
  for (const uint64_t number : {1, 2}) {
    a_.Hear<WireSocket>();
    EXPECT_EQ(NumberOf(a_.TakeDescriptor(0)), number);
  }
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0) << "before frames can come";
  a_.Say(Declare{Qpn{78}, Qpn{6}, kHost});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().local, Qpn{78});
  const std::string block = std::to_string(block_);
  EXPECT_EQ(host_.frame_switch().TakeCalls(),
            (Calls{"Declare " + block + " 77", "ShareWire " + block, "Declare " + block + " 78"}));
}

TEST_F(WireSocketsTest, ThoseThatComeLaterAreForProcessesThatNamedAHost) {
  Peer b(host_.fabric());
  b.Attach();
  a_.Say(Declare{Qpn{77}, Qpn{5}, kHost});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0) << "there are none yet";
  host_.frame_switch().ShareSockets(1);
  host_.server().OnWireSockets();
  a_.Hear<WireSocket>();
  EXPECT_EQ(NumberOf(a_.TakeDescriptor(0)), 1u);
  host_.Do([](Server&) {});
  EXPECT_TRUE(b.HearsNothingNow()) << "it talks to its own host only";
}

TEST_F(WireSocketsTest, HostOfTheAlternatePathIsNamedToo) {
  a_.Say(Declare{Qpn{77}, Qpn{5}, kHost, kOtherHost});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0);
  EXPECT_EQ(host_.frame_switch().TakePrepared(), (std::vector{kHost, kOtherHost}));
}

TEST_F(WireSocketsTest, ReceiverOfDatagramsGetsThemToo) {
  host_.frame_switch().ShareSockets(1);
  a_.Say(Declare{Qpn{77}, {}, {}});
  a_.Hear<WireSocket>();
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0);
  EXPECT_EQ(host_.frame_switch().TakePrepared(), std::vector{Gid{}});
}

// Members of a group answer from hosts that the process may not have named yet.
TEST_F(WireSocketsTest, JoinOrResolveOfAGroupBringsWireSocketsAndNotices) {
  const Gid group = Gid::FromIpv4({239, 1, 1, 5});
  Peer b(host_.fabric());
  b.Attach();
  Peer c(host_.fabric());
  c.Attach();
  host_.frame_switch().ShareSockets(1);
  a_.Say(JoinGroup{group});
  EXPECT_EQ(a_.Hear<GroupAnswer>().group, group);
  a_.Hear<WireSocket>();
  b.Say(Resolve{group});
  b.Hear<WireSocket>();
  EXPECT_FALSE(b.Hear<Neighbor>().is_known);
  EXPECT_EQ(host_.frame_switch().TakePrepared(), std::vector{group});
  host_.server().OnNotice(group, "it is too far");
  EXPECT_STREQ(a_.Hear<Notice>().sentence.data(), "it is too far");
  EXPECT_STREQ(b.Hear<Notice>().sentence.data(), "it is too far");
  host_.Do([](Server&) {});
  EXPECT_TRUE(c.HearsNothingNow());
}

// The way out of the host failed: there is one sentence for all hosts.
TEST_F(WireSocketsTest, SentenceAboutAllHostsIsToldOnceToThoseThatNamedOne) {
  Peer receiver(host_.fabric());
  receiver.Attach();
  receiver.Say(Declare{Qpn{77}, {}, {}});
  EXPECT_EQ(receiver.Hear<DeclareAnswer>().error, 0);
  for (const Gid& host : {kHost, kOtherHost}) {
    a_.Say(Declare{Qpn{77}, Qpn{5}, host});
    EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0);
  }
  for (const Gid& about : {kHost, kOtherHost, Gid{}}) {
    host_.server().OnNotice(about, "the port is taken");
  }
  EXPECT_STREQ(a_.Hear<Notice>().sentence.data(), "the port is taken");
  host_.server().OnNotice(kOtherHost, "it is too far");
  EXPECT_STREQ(a_.Hear<Notice>().sentence.data(), "it is too far");
  host_.Do([](Server&) {});
  EXPECT_TRUE(a_.HearsNothingNow());
  EXPECT_TRUE(receiver.HearsNothingNow());
}

TEST_F(WireSocketsTest, WireDropsAreInTheStatusReport) {
  PortDrops drops;
  drops[PortDrop::kOverflow] = 3;
  a_.Say(WireDrops{drops});
  Peer asker(host_.fabric());
  asker.Say(StatusRequest{0});
  EXPECT_EQ(asker.HearAmongOthers<StatusClient>().wire_drops[PortDrop::kOverflow], 3u);
}

TEST_F(UsersTest, ProcessesOfSeveralUsersGetNone) {
  host_.frame_switch().ShareSockets(2);
  a_.Say(Declare{Qpn{77}, Qpn{5}, kHost});
  EXPECT_EQ(a_.Hear<DeclareAnswer>().error, 0);
  host_.server().OnWireSockets();
  host_.Do([](Server&) {});
  EXPECT_TRUE(a_.HearsNothingNow());
}

}  // namespace
}  // namespace uroce::nic::control
