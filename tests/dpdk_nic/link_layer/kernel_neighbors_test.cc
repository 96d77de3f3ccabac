// The kernel's neighbours in virtual time. The test plays the kernel.
#include "dpdk_nic/link_layer/kernel_neighbors.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "tests/dpdk_nic/link_layer/neighborhood.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;
using transport::Milliseconds;
using transport::Time;
using Change = KernelTables::Change;

constexpr Gid kOurOtherIpv4 = Gid::FromIpv4({198, 51, 100, 1});
constexpr Gid kOtherPeerIpv4 = Gid::FromIpv4({198, 51, 100, 2});
constexpr Gid kFarIpv4 = Gid::FromIpv4({203, 0, 113, 1});

class FakeTables final : public KernelTables {
 public:
  std::vector<LocalAddress> Addresses() override { return addresses; }
  Gid NextHop(const Gid& destination) override {
    const auto found = routes.find(destination);
    return found == routes.end() ? destination : found->second;
  }
  Neighbor Find(const Gid& neighbor) override {
    ++finds;
    return neighbors[neighbor];
  }
  void Ask(const Gid& neighbor) override { asked.push_back(neighbor); }
  std::optional<Change> NextChange() override {
    if (news.empty()) return std::nullopt;
    const Change next = news.front();
    news.pop_front();
    return next;
  }

  std::vector<LocalAddress> addresses = {{kOurIpv4, 24}, {kOurLinkLocal, 64}};
  std::map<Gid, Gid> routes;
  std::map<Gid, Neighbor> neighbors;
  std::vector<Gid> asked;
  std::deque<Change> news;
  int finds = 0;
};

class KernelNeighborsTest : public testing::Test {
 protected:
  // The kernel has all of our addresses but kOurOtherIpv4, which is announced.
  KernelNeighborsTest() { DropFrames(); }

  void DropFrames() { Arps(); }

  // Takes the ARP packets that wait to be sent.
  std::vector<ArpPacket> Arps() {
    std::vector<ArpPacket> packets;
    std::array<uint8_t, 256> frame;
    while (neighbors_.HasTransmit()) {
      const size_t length = neighbors_.PollTransmit(now_, frame);
      if (const auto packet = ParseArp(std::span(frame).first(length))) packets.push_back(*packet);
    }
    return packets;
  }

  void DeliverQuestion(const Gid& for_whom) {
    const auto& b = for_whom.bytes;
    std::array<uint8_t, kArpFrameBytes> frame;
    EmitArp({.sender_mac = kPeerMac,
             .sender_ip = {192, 0, 2, 2},
             .target_ip = {b[12], b[13], b[14], b[15]}},
            kBroadcastMac, frame);
    EXPECT_TRUE(neighbors_.OnFrame(now_, frame));
  }

  void AdvanceTo(Time time) {
    while (neighbors_.NextDeadline() <= time) {
      now_ = std::max(now_, neighbors_.NextDeadline());
      neighbors_.OnDeadline(now_);
    }
    now_ = time;
  }
  void Advance(transport::Duration duration) { AdvanceTo(now_ + duration); }

  void SetPeer(const std::optional<MacAddress>& mac, bool is_confirmed) {
    tables_.neighbors[kPeerIpv4] = {mac, is_confirmed};
    tables_.news.push_back({Change::Kind::kNeighbor, kPeerIpv4, {mac, is_confirmed}});
  }

  FakeTables* const tables_pointer_ = new FakeTables;
  FakeTables& tables_ = *tables_pointer_;
  KernelNeighbors neighbors_{
      std::unique_ptr<KernelTables>(tables_pointer_),
      kOurMac,
      {{kOurLinkLocal, 64}, {kOurIpv4}, {kOurOtherIpv4, 24}},
  };
  Time now_{1'000'000'000};
};

TEST_F(KernelNeighborsTest, NeighborThatTheKernelKnowsIsKnown) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kPeerMac);
  EXPECT_TRUE(tables_.asked.empty());
  EXPECT_FALSE(neighbors_.HasTransmit());
  const auto change = neighbors_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->gid, kPeerIpv4);
  EXPECT_EQ(change->mac, kPeerMac);
}

TEST_F(KernelNeighborsTest, UnknownNeighborIsTheKernelsToAskFor) {
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), std::nullopt);
  EXPECT_EQ(tables_.asked, std::vector{kPeerIpv4});
  EXPECT_FALSE(neighbors_.HasTransmit());

  now_ = now_ + Milliseconds(1);
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), std::nullopt);
  EXPECT_EQ(tables_.asked.size(), 1u) << "asked already";
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kPeerMac) << "found by polling";
}

TEST_F(KernelNeighborsTest, KernelThatGaveUpIsAskedAgainAfterASecond) {
  neighbors_.Resolve(now_, kPeerIpv4);
  AdvanceTo(now_ + KernelNeighbors::kAskInterval);
  EXPECT_EQ(tables_.asked.size(), 1u) << "no Resolve meanwhile";
  neighbors_.Resolve(now_, kPeerIpv4);
  EXPECT_EQ(tables_.asked.size(), 2u);
}

TEST_F(KernelNeighborsTest, StaleNeighborIsUsedAndMadeSureOf) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, false};
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kPeerMac);
  EXPECT_EQ(tables_.asked, std::vector{kPeerIpv4});
}

TEST_F(KernelNeighborsTest, NeighborInUseIsMadeSureOfEvery30Seconds) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  neighbors_.Resolve(now_, kPeerIpv4);
  Advance(KernelNeighbors::kRecheckInterval);
  EXPECT_TRUE(tables_.asked.empty()) << "confirmed by traffic of other programs";
  tables_.neighbors[kPeerIpv4].is_confirmed = false;
  for (size_t i = 1; i <= 3; ++i) {
    Advance(KernelNeighbors::kRecheckInterval);
    EXPECT_EQ(tables_.asked.size(), i);
  }
  tables_.neighbors[kPeerIpv4] = {};  // the peer no longer answers
  Advance(KernelNeighbors::kRecheckInterval);
  EXPECT_EQ(tables_.asked.size(), 4u);
  const int finds = tables_.finds;
  Advance(KernelNeighbors::kRecheckInterval * 10);
  EXPECT_EQ(tables_.finds, finds) << "left alone";
}

TEST_F(KernelNeighborsTest, ChangeIsNoticedWithinTheCheckInterval) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  neighbors_.Resolve(now_, kPeerIpv4);
  neighbors_.TakeChange();
  Advance(Milliseconds(1));
  SetPeer(kOtherMac, true);
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kPeerMac);
  Advance(KernelNeighbors::kCheckInterval);
  const auto change = neighbors_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->gid, kPeerIpv4);
  EXPECT_EQ(change->mac, kOtherMac);
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kOtherMac);
  EXPECT_FALSE(neighbors_.TakeChange().has_value());
}

TEST_F(KernelNeighborsTest, ChangeThatAFrameAnnouncesIsNoticedAtOnce) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  neighbors_.Resolve(now_, kPeerIpv4);
  neighbors_.TakeChange();
  Advance(Milliseconds(1));
  DeliverQuestion(kOurIpv4);
  SetPeer(kOtherMac, true);
  EXPECT_EQ(neighbors_.NextDeadline(), now_ + KernelNeighbors::kKernelDelay);
  Advance(KernelNeighbors::kKernelDelay);
  EXPECT_TRUE(neighbors_.TakeChange().has_value());
}

TEST_F(KernelNeighborsTest, NeighborThatReturnsWithTheSameMacIsNoChange) {
  tables_.neighbors[kPeerIpv4] = {kPeerMac, true};
  neighbors_.Resolve(now_, kPeerIpv4);
  neighbors_.TakeChange();
  SetPeer(std::nullopt, false);
  Advance(KernelNeighbors::kCheckInterval);
  EXPECT_FALSE(neighbors_.TakeChange().has_value());
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), std::nullopt);
  SetPeer(kPeerMac, true);
  EXPECT_EQ(neighbors_.Resolve(now_, kPeerIpv4), kPeerMac);
  EXPECT_FALSE(neighbors_.TakeChange().has_value());
}

TEST_F(KernelNeighborsTest, FarDestinationFollowsItsGateway) {
  tables_.routes[kFarIpv4] = kPeerIpv4;
  EXPECT_EQ(neighbors_.Resolve(now_, kFarIpv4), std::nullopt);
  EXPECT_EQ(tables_.asked, std::vector{kPeerIpv4});
  SetPeer(kPeerMac, true);
  Advance(KernelNeighbors::kCheckInterval);
  const auto change = neighbors_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->gid, kFarIpv4);
  EXPECT_EQ(change->mac, kPeerMac);
}

TEST_F(KernelNeighborsTest, AfterAGapInTheNewsEveryDestinationIsLookedAt) {
  constexpr uint8_t kDestinations = 2 * KernelNeighbors::kMaxRechecksAtOnce + 1;
  for (uint8_t i = 0; i < kDestinations; ++i) {
    const Gid gid = Gid::FromIpv4({192, 0, 2, static_cast<uint8_t>(100 + i)});
    tables_.neighbors[gid] = {kPeerMac, true};
    neighbors_.Resolve(now_, gid);
    neighbors_.TakeChange();
    tables_.neighbors[gid] = {kOtherMac, true};
  }
  tables_.news.push_back({Change::Kind::kGap, {}, {}});
  Advance(KernelNeighbors::kCheckInterval);
  int changes = 0;
  while (neighbors_.TakeChange()) ++changes;
  EXPECT_EQ(changes, kDestinations);
}

TEST_F(KernelNeighborsTest, PassIsShortWhateverThereIsToDo) {
  for (int i = 0; i < 3 * KernelNeighbors::kMaxNewsAtOnce; ++i) SetPeer(kPeerMac, true);
  now_ = neighbors_.NextDeadline();
  neighbors_.OnDeadline(now_);
  EXPECT_EQ(tables_.news.size(), size_t{2 * KernelNeighbors::kMaxNewsAtOnce});
  Advance(Milliseconds(10));
  EXPECT_TRUE(tables_.news.empty());
}

TEST_F(KernelNeighborsTest, AddressThatTheKernelLacksIsSpokenForByOurselves) {
  EXPECT_EQ(neighbors_.Resolve(now_, kOtherPeerIpv4), std::nullopt);
  EXPECT_TRUE(tables_.asked.empty());
  const auto questions = Arps();
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(questions[0].sender_ip, (ArpPacket::Ipv4Address{198, 51, 100, 1}));

  DeliverQuestion(kOurIpv4);
  EXPECT_TRUE(Arps().empty()) << "the kernel answers";
  DeliverQuestion(kOurOtherIpv4);
  EXPECT_EQ(Arps().size(), 1u);
}

TEST_F(KernelNeighborsTest, AddressThatTheKernelLosesBecomesOurs) {
  neighbors_.Resolve(now_, kPeerIpv4);
  tables_.asked.clear();
  tables_.addresses = {{kOurLinkLocal, 64}};
  tables_.news.push_back({Change::Kind::kAddresses, {}, {}});
  Advance(KernelNeighbors::kCheckInterval);
  const auto packets = Arps();
  ASSERT_GE(packets.size(), 2u);
  EXPECT_EQ(packets[0].target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 1})) << "is announced";
  EXPECT_EQ(packets[1].target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 2})) << "is asked for";
  DeliverQuestion(kOurIpv4);
  EXPECT_EQ(Arps().size(), 1u);
  neighbors_.Resolve(now_, kPeerIpv4);
  EXPECT_TRUE(tables_.asked.empty());
}

TEST_F(KernelNeighborsTest, AddressThatTheKernelGetsBecomesTheKernels) {
  tables_.addresses.push_back({kOurOtherIpv4, 24});
  tables_.news.push_back({Change::Kind::kAddresses, {}, {}});
  Advance(KernelNeighbors::kCheckInterval);
  DeliverQuestion(kOurOtherIpv4);
  neighbors_.Resolve(now_, kOtherPeerIpv4);
  EXPECT_TRUE(Arps().empty());
  EXPECT_EQ(tables_.asked, std::vector{kOtherPeerIpv4});
}

TEST_F(KernelNeighborsTest, LinkLocalNeighborIsTheKernelsToo) {
  neighbors_.Resolve(now_, kPeerLinkLocal);
  EXPECT_EQ(tables_.asked, std::vector{kPeerLinkLocal});
}

TEST_F(KernelNeighborsTest, OwnAndMulticastAddressesNeedNoAsking) {
  EXPECT_EQ(neighbors_.Resolve(now_, kOurIpv4), kOurMac);
  EXPECT_EQ(neighbors_.Resolve(now_, kOurOtherIpv4), kOurMac);
  EXPECT_EQ(neighbors_.Resolve(now_, Gid::FromIpv4({224, 0, 0, 1})),
            (MacAddress{0x01, 0x00, 0x5e, 0, 0, 1}));
  EXPECT_TRUE(tables_.asked.empty());
  EXPECT_FALSE(neighbors_.HasTransmit());
}

TEST_F(KernelNeighborsTest, LeastRecentDestinationIsForgottenWhenThereAreTooMany) {
  const auto destination = [](size_t i) {
    return Gid::FromIpv4({192, 0, static_cast<uint8_t>(3 + i / 256), static_cast<uint8_t>(i)});
  };
  for (size_t i = 0; i <= KernelNeighbors::kMaxDestinations; ++i) {
    now_ = now_ + Milliseconds(1);
    tables_.neighbors[destination(i)] = {kPeerMac, true};
    neighbors_.Resolve(now_, destination(i));
  }
  const int finds = tables_.finds;
  neighbors_.Resolve(now_, destination(1));
  EXPECT_EQ(tables_.finds, finds) << "still known";
  neighbors_.Resolve(now_, destination(0));
  EXPECT_EQ(tables_.finds, finds + 1) << "was forgotten";
}

}  // namespace
}  // namespace uroce::nic
