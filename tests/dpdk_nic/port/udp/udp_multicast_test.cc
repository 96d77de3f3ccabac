// Multicast groups between the two ends of a veth pair: by ports on all addresses of a host, and by
// ports on one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/port/udp/group_memberships.h"
#include "dpdk_nic/port/udp/udp_port.h"
#include "dpdk_nic/port/udp/udp_uplink.h"
#include "tests/dpdk_nic/port/dpdk/veth_pair.h"
#include "tests/dpdk_nic/port/udp/udp_frames.h"

namespace uroce::nic {
namespace {

using transport::DropReason;
using transport::Gid;
using transport::Route;
using PathState = PacketPort::PathState;
using Receivers = GroupMemberships::Receivers;

constexpr int kTimeoutMs = 60'000;

Gid Group(uint32_t number) {
  return Gid::FromIpv4({239, 1, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number)});
}
Gid Group6(uint8_t scope, uint8_t number = 1) {
  return {
      {0xff, static_cast<uint8_t>(0x10 | scope), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, number}};
}

// The addresses of two hosts of one IP version, and a group for both.
struct Members {
  Gid near;
  Gid far;
  Gid group;
};
const Members kMembers[] = {{kNear, kFar, Group(1)},
                            {kNear6, kFar6, Group6(0xe)},
                            {kNear6, kFar6, Group6(2)}};  // of link-local scope

// The PSNs of the next `count` frames, all of which must go from `from` to `to`.
std::vector<uint32_t> Receive(PacketPort* port, const Gid& from, const Gid& to, size_t count) {
  std::vector<uint32_t> numbers;
  while (numbers.size() < count) {
    const auto frame = ReceiveFrame(port);
    if (frame.empty()) {
      pollfd poller = {.fd = port->wait_fd(), .events = POLLIN, .revents = 0};
      if (poll(&poller, 1, kTimeoutMs) == 1) continue;
      ADD_FAILURE() << "only " << numbers.size() << " of " << count;
      break;
    }
    transport::Packet packet;
    EXPECT_EQ(ParseFrame(frame, packet), DropReason::kNone);
    EXPECT_EQ(packet.flow.source, from);
    EXPECT_EQ(packet.flow.destination, to);
    EXPECT_EQ((frame[0] & 1) != 0, to.IsMulticast());
    numbers.push_back(packet.psn.value());
    port->ReleaseReceived();
  }
  return numbers;
}

std::vector<UdpFrameSpec> FramesTo(const Gid& group, const Gid& source, uint32_t count) {
  std::vector<UdpFrameSpec> specs;
  for (uint32_t psn = 0; psn < count; ++psn) {
    specs.push_back({.source = source, .destination = group, .psn = psn, .payload_bytes = 1'024});
  }
  return specs;
}

class UdpMulticastTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    pair_ = new VethPair(1'500);
    if (pair_->problem().empty()) VethPair::Run("ip link set lo up");
  }
  // The kernel drops frames on an interface that has just come up. So SetUp first sends to a host,
  // for which the kernel repeats its neighbour request.
  void SetUp() override {
    if (!pair_->problem().empty()) GTEST_SKIP() << pair_->problem();
    const auto near = CreateNear();
    const auto far = OpenFar();
    for (const auto& [from, to] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
      Send(near.get(), {{.source = from, .destination = to}});
      ASSERT_EQ(Receive(far.get(), from, to, 1).size(), 1u);
    }
  }

  static void OnFarHost(const std::function<void()>& work) {
    const UniqueFd near(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    const UniqueFd far(open(pair_->far_namespace().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(setns(far.get(), CLONE_NEWNET), 0);
    work();
    ASSERT_EQ(setns(near.get(), CLONE_NEWNET), 0);
  }
  static PathState JoinFar(PacketPort* port, const Gid& group) {
    PathState state{};
    OnFarHost([&] { state = port->JoinGroup(group); });
    return state;
  }
  // Opens a port of the far host on `addresses`, or on all if empty.
  static std::unique_ptr<UdpPort> OpenFar(const std::vector<Gid>& addresses = {}) {
    std::unique_ptr<UdpPort> port;
    OnFarHost([&] {
      auto opened = addresses.empty() ? UdpPort::OpenWildcard(AllAddresses(), 4'200)
                                      : UdpPort::Open(addresses, 0);
      ASSERT_TRUE(opened.ok()) << opened.error();
      port = std::move(opened).value();
    });
    return port;
  }
  static std::unique_ptr<UdpUplink> CreateNear(bool shares_sockets = false,
                                               std::vector<Gid> addresses = {}) {
    auto uplink = UdpUplink::Create(
        {.addresses = std::move(addresses), .mtu_bytes = 4'200, .shares_sockets = shares_sockets});
    EXPECT_TRUE(uplink.ok());
    return std::move(uplink).value();
  }
  // Expects that the next frame at the far host is one sent now, so that none sent before arrived.
  static void ExpectNothingBefore(PacketPort* from, PacketPort* far) {
    Send(from, {{.source = kNear, .destination = kFar, .psn = 99}});
    EXPECT_EQ(Receive(far, kNear, kFar, 1), std::vector<uint32_t>{99});
  }

  static const VethPair* pair_;
};

const VethPair* UdpMulticastTest::pair_ = nullptr;

// Expect: each frame once, in order, in both directions, from a single call and from several; and
// none at the sender, which is a member as well.
TEST_F(UdpMulticastTest, FramesReachTheMembersOnTheOtherHostOnce) {
  for (const bool is_far_on_all : {true, false}) {
    for (const auto& [near_gid, far_gid, group] : kMembers) {
      const auto near = CreateNear(/*shares_sockets=*/true);
      const auto far = is_far_on_all ? OpenFar() : OpenFar({kFar, kFar6});
      ASSERT_EQ(near->JoinGroup(group), PathState::kReady);
      ASSERT_EQ(JoinFar(far.get(), group), PathState::kReady);
      Send(near.get(), FramesTo(group, near_gid, 50));
      Send(near.get(), FramesTo(group, near_gid, 1));
      SCOPED_TRACE(AddressText(group) + (is_far_on_all ? " on all addresses" : " on one"));
      const auto numbers = Receive(far.get(), near_gid, group, 51);
      ASSERT_EQ(numbers.size(), 51u);
      for (uint32_t i = 0; i < 50; ++i) EXPECT_EQ(numbers[i], i);
      Send(far.get(), FramesTo(group, far_gid, 50));
      EXPECT_EQ(Receive(near.get(), far_gid, group, 50).size(), 50u);

      EXPECT_TRUE(near->Receive().bytes.empty());
      EXPECT_TRUE(far->Receive().bytes.empty());
      EXPECT_EQ(near->counters().drops.total(), 0u);
      EXPECT_EQ(far->counters().drops.total(), 0u);
    }
  }
}

TEST_F(UdpMulticastTest, UnjoinedOrLeftGroupReceivesNothing) {
  for (const bool is_far_on_all : {true, false}) {
    for (const auto& [near_gid, far_gid, group] : kMembers) {
      const auto near = CreateNear();
      const auto far = is_far_on_all ? OpenFar() : OpenFar({kFar, kFar6});
      Send(near.get(), FramesTo(group, near_gid, 1));
      ExpectNothingBefore(near.get(), far.get());
      ASSERT_EQ(JoinFar(far.get(), group), PathState::kReady);
      ASSERT_EQ(JoinFar(far.get(), Group(2)), PathState::kReady);
      Send(near.get(), FramesTo(group, near_gid, 1));
      EXPECT_EQ(Receive(far.get(), near_gid, group, 1).size(), 1u);
      far->LeaveGroup(group);
      Send(near.get(), FramesTo(group, near_gid, 1));
      ExpectNothingBefore(near.get(), far.get());
    }
  }
}

// More groups than the kernel lets one socket join.
TEST_F(UdpMulticastTest, ManyGroupsAreJoined) {
  constexpr uint32_t kGroups = 150;
  const auto near = CreateNear();
  const auto far = OpenFar();
  for (uint32_t i = 0; i < kGroups; ++i) {
    ASSERT_EQ(JoinFar(far.get(), Group(i)), PathState::kReady);
    ASSERT_EQ(JoinFar(far.get(), Group6(5, static_cast<uint8_t>(i))), PathState::kReady);
  }
  for (uint32_t i = 0; i < kGroups; ++i) {
    const Gid group6 = Group6(5, static_cast<uint8_t>(i));
    Send(near.get(), {{.source = kNear, .destination = Group(i), .psn = i}});
    EXPECT_EQ(Receive(far.get(), kNear, Group(i), 1), std::vector<uint32_t>{i});
    Send(near.get(), {{.source = kNear6, .destination = group6, .psn = i}});
    EXPECT_EQ(Receive(far.get(), kNear6, group6, 1), std::vector<uint32_t>{i});
  }
}

// The processes' sockets share the port; without care each would get a copy.
TEST_F(UdpMulticastTest, ProcessSocketsReceiveNoMulticast) {
  const auto near = CreateNear(/*shares_sockets=*/true);
  const auto far = OpenFar();
  ASSERT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
  ASSERT_EQ(near->JoinGroup(Group6(0xe)), PathState::kReady);
  const std::vector<UniqueFd> sockets = near->Share(7);
  ASSERT_EQ(sockets.size(), 2u);
  Send(far.get(), {{.source = kFar, .destination = Group(1), .psn = 3}});
  EXPECT_EQ(Receive(near.get(), kFar, Group(1), 1), std::vector<uint32_t>{3});
  Send(far.get(), {{.source = kFar6, .destination = Group6(0xe), .psn = 4}});
  EXPECT_EQ(Receive(near.get(), kFar6, Group6(0xe), 1), std::vector<uint32_t>{4});
  for (const UniqueFd& socket : sockets) {
    pollfd poller = {.fd = socket.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&poller, 1, 0), 0);
  }
}

// Two fabrics, or programs in direct mode, on different addresses of one host.
TEST_F(UdpMulticastTest, PortsOnSingleAddressesOfAHostReachEachOther) {
  const auto four = CreateNear(/*shares_sockets=*/true, {kNear});
  VethPair::Run("ip address add 10.77.0.9/24 dev near");
  const Gid other_gid = Gid::FromIpv4({10, 77, 0, 9});
  const auto other = CreateNear(/*shares_sockets=*/false, {other_gid});
  const auto far = OpenFar();
  ASSERT_EQ(four->JoinGroup(Group(1)), PathState::kReady);
  ASSERT_EQ(other->JoinGroup(Group(1)), PathState::kReady);
  ASSERT_EQ(JoinFar(far.get(), Group(1)), PathState::kReady);
  Send(four.get(), FramesTo(Group(1), kNear, 50));
  EXPECT_EQ(Receive(other.get(), kNear, Group(1), 50).size(), 50u);
  EXPECT_EQ(Receive(far.get(), kNear, Group(1), 50).size(), 50u);
  Send(other.get(), FramesTo(Group(1), other_gid, 50));
  EXPECT_EQ(Receive(four.get(), other_gid, Group(1), 50).size(), 50u);
  EXPECT_EQ(Receive(far.get(), other_gid, Group(1), 50).size(), 50u);
  Send(far.get(), FramesTo(Group(1), kFar, 50));
  EXPECT_EQ(Receive(four.get(), kFar, Group(1), 50).size(), 50u);
  EXPECT_EQ(Receive(other.get(), kFar, Group(1), 50).size(), 50u);
  EXPECT_TRUE(four->Receive().bytes.empty());
  EXPECT_TRUE(other->Receive().bytes.empty());
  EXPECT_EQ(four->counters().drops.total() + other->counters().drops.total(), 0u);
  VethPair::Run("ip address del 10.77.0.9/24 dev near");
}

TEST_F(UdpMulticastTest, UplinkOpensWhenAGroupIsJoinedOrSentTo) {
  const auto far = OpenFar();
  ASSERT_EQ(JoinFar(far.get(), Group(1)), PathState::kReady);
  auto near = CreateNear();
  Send(near.get(), {{.source = kNear, .destination = Group(1), .psn = 5}});
  EXPECT_TRUE(near->is_open());
  EXPECT_EQ(Receive(far.get(), kNear, Group(1), 1), std::vector<uint32_t>{5});
  near.reset();
  near = CreateNear();
  EXPECT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
  EXPECT_TRUE(near->is_open());
}

// RFC 4291, 2.7.
TEST_F(UdpMulticastTest, GroupOfTheHostOpensNothing) {
  const auto near = CreateNear();
  EXPECT_EQ(near->JoinGroup(Group6(1)), PathState::kReady);
  Send(near.get(), {{.source = kNear6, .destination = Group6(1)}});
  near->LeaveGroup(Group6(1));
  EXPECT_FALSE(near->is_open());
  EXPECT_EQ(near->TakeNotice().sentence, "");
}

TEST_F(UdpMulticastTest, JoinWhileThePortIsTakenCompletesOnceThePortIsFree) {
  const auto far = OpenFar();
  const auto near = CreateNear();
  UniqueFd owner(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress any = SocketAddress::Make(Gid::FromIpv4({}), 4'791, 0);
  ASSERT_EQ(bind(owner.get(), any.get(), any.bytes), 0);
  EXPECT_EQ(near->JoinGroup(Group(3)), PathState::kUnreachable);
  EXPECT_EQ(near->JoinGroup(Group(1)), PathState::kUnreachable);
  EXPECT_EQ(near->JoinGroup(Group(2)), PathState::kUnreachable);
  EXPECT_EQ(near->TakeNotice().sentence, "") << "all members may be on this host";
  near->LeaveGroup(Group(2));
  EXPECT_FALSE(near->keeps_frames());
  owner.reset();
  PacketPort::Path path;
  path.remote_gid = kFar;
  ASSERT_EQ(near->PreparePath(path), PathState::kReady);
  near->LeaveGroup(Group(3));  // before it is joined
  while (near->keeps_frames()) near->ServeLink();
  for (const uint32_t group : {2u, 3u, 1u}) Send(far.get(), FramesTo(Group(group), kFar, 1));
  EXPECT_EQ(Receive(near.get(), kFar, Group(1), 1).size(), 1u) << "and nothing to the others";
}

TEST_F(UdpMulticastTest, GroupIsLeftAndJoinedAgain) {
  const auto far = OpenFar();
  const auto near = CreateNear();
  ASSERT_EQ(near->JoinGroup(Group(0)), PathState::kReady);
  ASSERT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
  near->LeaveGroup(Group(0));  // the second JoinGroup(Group(1)) leaves it first
  near->LeaveGroup(Group(1));
  ASSERT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
  while (near->keeps_frames()) near->ServeLink();
  Send(far.get(), FramesTo(Group(1), kFar, 1));
  EXPECT_EQ(Receive(near.get(), kFar, Group(1), 1).size(), 1u);
  near->LeaveGroup(Group(1));
  while (near->keeps_frames()) near->ServeLink();
  Send(far.get(), FramesTo(Group(1), kFar, 1));
  Send(far.get(), {{.source = kFar, .destination = kNear}});
  EXPECT_EQ(Receive(near.get(), kFar, kNear, 1).size(), 1u);
}

// An interface gets its first address while the group is joined.
TEST_F(UdpMulticastTest, GroupIsJoinedOnInterfacesThatCome) {
  VethPair::Run("ip link add extra type veth peer name extra-far netns " +
                std::to_string(pair_->far_process()));
  VethPair::Run("ip link set extra up");
  pair_->RunFar("ip link set extra-far up");
  pair_->RunFar("ip address add 10.78.0.2/24 dev extra-far");
  const auto far = OpenFar();
  const auto near = CreateNear();
  ASSERT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
  VethPair::Run("ip address add 10.78.0.1/24 dev extra");
  const Gid other_far = Gid::FromIpv4({10, 78, 0, 2});
  const Gid other_near = Gid::FromIpv4({10, 78, 0, 1});
  near->ServeLink();
  Send(far.get(), {{.source = other_far, .destination = other_near}});
  ASSERT_EQ(Receive(near.get(), other_far, other_near, 1).size(), 1u);
  Send(far.get(), {{.source = other_far, .destination = Group(1), .psn = 8}});
  EXPECT_EQ(Receive(near.get(), other_far, Group(1), 1), std::vector<uint32_t>{8});
  VethPair::Run("ip link del extra");
}

TEST_F(UdpMulticastTest, MembershipsFollowTheAddresses) {
  for (const Receivers receivers : {Receivers::kOfAllAddresses, Receivers::kOfTheGroup}) {
    GroupMemberships groups;
    const std::vector<HostAddress> all = AllAddresses();
    ASSERT_EQ(groups.Join(Group(1), receivers, {}), 0);
    ASSERT_EQ(groups.Join(Group6(5), receivers, {}), 0);
    const std::vector<HostAddress> gone = {{.gid = kNear, .interface_index = 9'999}};
    ASSERT_EQ(groups.Join(Group(2), receivers, gone), 0);
    groups.Leave(Group(2));
    EXPECT_EQ(groups.memberships(), 0u);
    groups.Follow(all);
    EXPECT_EQ(groups.memberships(), 2u);
    groups.Follow(all);
    EXPECT_EQ(groups.memberships(), 2u);
    // A group is not joined on an interface that has gone; its other memberships stay.
    std::vector<HostAddress> with_another = all;
    with_another.push_back({.gid = kFar, .interface_index = 9'999});
    groups.Follow(with_another);
    EXPECT_EQ(groups.memberships(), 2u);
    groups.Follow({});
    EXPECT_EQ(groups.memberships(), 0u);
    groups.Leave(Group(1));
    groups.Leave(Group6(5));
    EXPECT_TRUE(groups.sockets().empty());
  }
}

// An IPv6 group, as a socket can join more of them than of IPv4.
Gid NumberedGroup(size_t number) {
  Gid group = Group6(5);
  group.bytes[12] = static_cast<uint8_t>(number >> 8);
  group.bytes[13] = static_cast<uint8_t>(number);
  return group;
}

TEST_F(UdpMulticastTest, GroupsOfAnUplinkAreLimited) {
  const auto near = CreateNear();
  for (size_t i = 0; i < GroupMemberships::kMaxMemberships; ++i) {
    ASSERT_EQ(near->JoinGroup(NumberedGroup(i)), PathState::kReady) << i;
  }
  EXPECT_EQ(near->JoinGroup(Group(1)), PathState::kRefused);
  EXPECT_NE(near->TakeNotice().sentence.find("too many already"), std::string::npos);
  EXPECT_EQ(near->JoinGroup(NumberedGroup(5)), PathState::kReady) << "it is joined already";
  near->LeaveGroup(NumberedGroup(5));
  while (near->keeps_frames()) near->ServeLink();
  EXPECT_EQ(near->JoinGroup(Group(1)), PathState::kReady);
}

TEST_F(UdpMulticastTest, GroupsAreLimited) {
  GroupMemberships groups;
  const std::vector<HostAddress> all = AllAddresses();
  for (size_t i = 0; i < GroupMemberships::kMaxMemberships; ++i) {
    ASSERT_EQ(groups.Join(NumberedGroup(i), Receivers::kOfAllAddresses, all), 0) << i;
  }
  for (int tries = 0; tries < 2; ++tries) {
    EXPECT_EQ(groups.Join(Group(1), Receivers::kOfAllAddresses, all), ENOSPC);
  }
  EXPECT_EQ(groups.Join(NumberedGroup(0), Receivers::kOfAllAddresses, all), 0)
      << "it is joined already";
  groups.Leave(NumberedGroup(1));
  EXPECT_EQ(groups.Join(Group(1), Receivers::kOfAllAddresses, all), 0);
}

TEST(GroupMembershipsTest, RoomIsForGroupsOnAllInterfaces) {
  constexpr size_t kMost = GroupMemberships::kMaxMemberships;
  const auto room = [](std::vector<HostAddress> addresses) {
    return GroupMemberships::MaxGroups(Receivers::kOfAllAddresses, addresses);
  };
  EXPECT_EQ(room({}), kMost);
  EXPECT_EQ(room({{.gid = kNear, .interface_index = 1}}), kMost);
  EXPECT_EQ(room({{.gid = kNear, .interface_index = 1}, {.gid = kNear6, .interface_index = 1}}),
            kMost);
  EXPECT_EQ(room({{.gid = kNear, .interface_index = 1}, {.gid = kFar, .interface_index = 1}}),
            kMost);
  for (const auto& [one, other] : {std::pair(kNear, kFar), std::pair(kNear6, kFar6)}) {
    EXPECT_EQ(room({{.gid = one, .interface_index = 1}, {.gid = other, .interface_index = 2}}),
              kMost / 2);
  }
  const std::vector<HostAddress> near = {{.gid = kNear, .interface_index = 1}};
  EXPECT_EQ(GroupMemberships::MaxGroups(Receivers::kOfTheGroup, near),
            GroupMemberships::kMaxSockets);
}

TEST_F(UdpMulticastTest, UplinkReportsItsGroupLimit) {
  EXPECT_EQ(CreateNear()->max_groups(), GroupMemberships::kMaxMemberships);
  EXPECT_EQ(CreateNear(/*shares_sockets=*/true)->max_groups(), GroupMemberships::kMaxMemberships);
  EXPECT_EQ(CreateNear(/*shares_sockets=*/false, {kNear})->max_groups(),
            GroupMemberships::kMaxSockets);
}

// A process joins and leaves faster than the port leaves.
TEST_F(UdpMulticastTest, GroupsThatAreLeftKeepNoOtherOut) {
  constexpr size_t kHalf = GroupMemberships::kMaxMemberships / 2;
  const auto near = CreateNear();
  const auto join_half = [&](size_t first) {
    for (size_t i = 0; i < kHalf; ++i) {
      ASSERT_EQ(near->JoinGroup(NumberedGroup(first + i)), PathState::kReady) << first + i;
    }
  };
  join_half(0);
  for (size_t i = 0; i < kHalf; ++i) near->LeaveGroup(NumberedGroup(i));
  join_half(kHalf);
  join_half(2 * kHalf);  // groups of another process
}

TEST_F(UdpMulticastTest, InterfaceThatComesLeavesRoomForGroupsThatAreJoined) {
  GroupMemberships groups;
  const std::vector<HostAddress> all = AllAddresses();
  constexpr size_t kGroups = GroupMemberships::kMaxMemberships - GroupMemberships::kKeptForGroups;
  // Without an interface there is no membership yet.
  for (size_t i = 0; i < kGroups + 1; ++i) {
    ASSERT_EQ(groups.Join(NumberedGroup(i), Receivers::kOfAllAddresses, {}), 0) << i;
  }
  groups.Follow(all);
  EXPECT_EQ(groups.memberships(), kGroups);
  EXPECT_EQ(groups.Join(Group(1), Receivers::kOfAllAddresses, all), 0);
  EXPECT_EQ(groups.memberships(), kGroups + 1);
  groups.Follow(all);
  EXPECT_EQ(groups.memberships(), kGroups + 1) << "those that are there stay";
}

TEST_F(UdpMulticastTest, PortOnOneAddressJoinsSoManyGroups) {
  const auto port = UdpPort::Open({kNear}, 0);
  ASSERT_TRUE(port.ok());
  for (uint32_t i = 0; i < GroupMemberships::kMaxSockets; ++i) {
    ASSERT_EQ(port.value()->JoinGroup(Group(i)), PathState::kReady);
  }
  EXPECT_EQ(port.value()->JoinGroup(Group(999)), PathState::kRefused);
  const auto notice = port.value()->TakeNotice();
  EXPECT_EQ(notice.about, Group(999));
  EXPECT_EQ(notice.sentence,
            "the multicast group 239.1.3.231 cannot be joined as there are too many already: leave "
            "some");
  EXPECT_EQ(port.value()->JoinGroup(Group(0)), PathState::kReady) << "it is joined already";
  EXPECT_EQ(port.value()->JoinGroup(Group6(1)), PathState::kReady) << "of this host: needs none";
  port.value()->LeaveGroup(Group(0));
  EXPECT_EQ(port.value()->JoinGroup(Group(999)), PathState::kReady);
}

}  // namespace
}  // namespace uroce::nic
