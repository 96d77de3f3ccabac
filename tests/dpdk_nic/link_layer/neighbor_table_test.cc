// The neighbour table in virtual time.
#include "dpdk_nic/link_layer/neighbor_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/dpdk_nic/link_layer/neighborhood.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::kNever;
using transport::MacAddress;
using transport::Milliseconds;
using transport::Time;

constexpr Gid kFarIpv4 = Gid::FromIpv4({198, 51, 100, 7});
constexpr Gid kOurIpv6 = {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr Gid kPeerIpv6 = {{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

using FrameBytes = std::vector<uint8_t>;

class NeighborTableTest : public testing::Test {
 protected:
  NeighborTableTest() { Frames(); }  // the announcements

  // Takes all frames that the table wants to send.
  std::vector<FrameBytes> Frames() {
    std::vector<FrameBytes> frames;
    while (table_.HasTransmit()) {
      FrameBytes frame(256);
      frame.resize(table_.PollTransmit(now_, frame));
      frames.push_back(frame);
    }
    return frames;
  }

  // Takes the one frame that the table wants to send, as an ARP packet.
  ArpPacket OneArp() {
    const auto frames = Frames();
    EXPECT_EQ(frames.size(), 1u);
    const auto packet = frames.empty() ? std::nullopt : ParseArp(frames[0]);
    EXPECT_TRUE(packet.has_value());
    return packet.value_or(ArpPacket{});
  }
  NeighborMessage OneMessage() {
    const auto frames = Frames();
    EXPECT_EQ(frames.size(), 1u);
    const auto message = frames.empty() ? std::nullopt : ParseNeighborMessage(frames[0]);
    EXPECT_TRUE(message.has_value());
    return message.value_or(NeighborMessage{});
  }

  void Deliver(const ArpPacket& packet) {
    FrameBytes frame(kArpFrameBytes);
    EmitArp(packet, kOurMac, frame);
    EXPECT_TRUE(table_.OnFrame(now_, frame));
  }
  void Deliver(const NeighborMessage& message) {
    FrameBytes frame(kMaxNeighborMessageBytes);
    frame.resize(EmitNeighborMessage(message, kPeerMac, kOurMac, frame));
    EXPECT_TRUE(table_.OnFrame(now_, frame));
  }

  static ArpPacket Reply(const MacAddress& mac = kPeerMac) {
    return {.operation = ArpPacket::Operation::kReply,
            .sender_mac = mac,
            .sender_ip = {192, 0, 2, 2},
            .target_mac = kOurMac,
            .target_ip = {192, 0, 2, 1}};
  }
  static NeighborMessage Advertisement(const MacAddress& mac, bool overrides) {
    return {.type = NeighborMessage::Type::kAdvertisement,
            .source = kPeerIpv6,
            .destination = kOurIpv6,
            .target = kPeerIpv6,
            .link_layer_address = mac,
            .is_solicited = true,
            .overrides = overrides};
  }

  // Lets time pass until the next deadline; false if there is none.
  bool AdvanceToDeadline() {
    if (table_.NextDeadline() == kNever) return false;
    now_ = std::max(now_, table_.NextDeadline());
    table_.OnDeadline(now_);
    return true;
  }

  void MakeReachable() {
    table_.Resolve(now_, kPeerIpv4);
    Deliver(Reply());
    Frames();
    table_.TakeChange();
  }

  NeighborTable table_{{.mac = kOurMac,
                        .addresses = {{kOurLinkLocal}, {kOurIpv4}, {kOurIpv6}},
                        .next_hop = nullptr}};
  Time now_{1'000'000'000};
};

TEST(NeighborTableStartTest, AnnouncesEachAddress) {
  NeighborTable table({.mac = kOurMac, .addresses = {{kOurLinkLocal}, {kOurIpv4}}, .next_hop = {}});
  FrameBytes frame(256);
  const auto message = ParseNeighborMessage(std::span(frame).first(table.PollTransmit({}, frame)));
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->target, kOurLinkLocal);
  EXPECT_EQ(message->destination, kAllNodesGid);
  EXPECT_TRUE(message->overrides);
  EXPECT_FALSE(message->is_solicited);
  const auto packet = ParseArp(std::span(frame).first(table.PollTransmit({}, frame)));
  ASSERT_TRUE(packet.has_value());
  EXPECT_EQ(packet->sender_ip, packet->target_ip);
  EXPECT_FALSE(table.HasTransmit());
  EXPECT_EQ(table.PollTransmit({}, frame), 0u);
}

TEST_F(NeighborTableTest, UnknownIpv4NeighborIsAskedForByBroadcast) {
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), std::nullopt);
  const auto frames = Frames();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_TRUE(std::equal(kBroadcastMac.begin(), kBroadcastMac.end(), frames[0].begin()));
  const auto request = ParseArp(frames[0]);
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->operation, ArpPacket::Operation::kRequest);
  EXPECT_EQ(request->sender_mac, kOurMac);
  EXPECT_EQ(request->sender_ip, (ArpPacket::Ipv4Address{192, 0, 2, 1}));
  EXPECT_EQ(request->target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 2}));

  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), std::nullopt);
  EXPECT_TRUE(Frames().empty()) << "asked already";
  Deliver(Reply());
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kPeerMac);
  const auto change = table_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->gid, kPeerIpv4);
  EXPECT_EQ(change->mac, kPeerMac);
  EXPECT_FALSE(table_.TakeChange().has_value());
}

TEST_F(NeighborTableTest, UnknownIpv6NeighborIsAskedForInItsGroup) {
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), std::nullopt);
  const NeighborMessage solicitation = OneMessage();
  EXPECT_EQ(solicitation.type, NeighborMessage::Type::kSolicitation);
  EXPECT_EQ(solicitation.source, kOurIpv6);
  EXPECT_EQ(solicitation.destination, SolicitedNodeGid(kPeerIpv6));
  EXPECT_EQ(solicitation.link_layer_address, kOurMac);
  Deliver(Advertisement(kPeerMac, true));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kPeerMac);
}

TEST_F(NeighborTableTest, LinkLocalNeighborIsAskedFromOurLinkLocalAddress) {
  table_.Resolve(now_, kPeerLinkLocal);
  EXPECT_EQ(OneMessage().source, kOurLinkLocal);
}

TEST_F(NeighborTableTest, SilentNeighborIsAskedFiveTimesThenAgainOnDemand) {
  table_.Resolve(now_, kPeerIpv4);
  const Time start = now_;
  std::vector<int64_t> asked_ms;
  do {
    for (size_t i = Frames().size(); i > 0; --i) asked_ms.push_back((now_ - start).ns / 1'000'000);
  } while (AdvanceToDeadline());
  EXPECT_EQ(asked_ms, (std::vector<int64_t>{0, 100, 300, 700, 1'500}));
  EXPECT_EQ((now_ - start).ns, Milliseconds(3'100).ns);

  EXPECT_EQ(table_.Resolve(now_ + Milliseconds(999), kPeerIpv4), std::nullopt);
  EXPECT_TRUE(Frames().empty());
  EXPECT_EQ(table_.Resolve(now_ + Milliseconds(1'000), kPeerIpv4), std::nullopt);
  EXPECT_EQ(Frames().size(), 1u);
}

TEST_F(NeighborTableTest, AnswerAfterFailureIsStillLearnt) {
  table_.Resolve(now_, kPeerIpv4);
  while (AdvanceToDeadline()) {
  }
  Deliver(Reply());
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kPeerMac);
}

TEST_F(NeighborTableTest, ReachableNeighborIsConfirmedAloneEvery30Seconds) {
  MakeReachable();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(table_.NextDeadline(), now_ + NeighborTable::kReachableTime);
    ASSERT_TRUE(AdvanceToDeadline());
    const auto frames = Frames();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_TRUE(std::equal(kPeerMac.begin(), kPeerMac.end(), frames[0].begin()));
    EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kPeerMac) << "usable while it is asked";
    Deliver(Reply());
    EXPECT_FALSE(table_.TakeChange().has_value());
  }
}

TEST_F(NeighborTableTest, ReachableNeighborThatFellSilentFailsAfterThreeProbes) {
  MakeReachable();
  const Time start = now_;
  size_t probes = 0;
  while (AdvanceToDeadline()) probes += Frames().size();
  EXPECT_EQ(probes, 3u);
  EXPECT_EQ((now_ - start).ns, Milliseconds(33'000).ns);
  EXPECT_EQ(table_.Resolve(now_ + NeighborTable::kFailedTime, kPeerIpv4), std::nullopt);
  EXPECT_EQ(OneArp().target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 2}));
}

TEST_F(NeighborTableTest, NewAddressOfAKnownNeighborIsAChange) {
  MakeReachable();
  ArpPacket announcement = Reply(kOtherMac);
  announcement.operation = ArpPacket::Operation::kRequest;
  announcement.target_ip = announcement.sender_ip;
  Deliver(announcement);
  const auto change = table_.TakeChange();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->mac, kOtherMac);
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kOtherMac);
}

TEST_F(NeighborTableTest, NeighborThatFailedAndReturnsElsewhereIsAChange) {
  MakeReachable();
  while (AdvanceToDeadline()) Frames();
  ArpPacket announcement = Reply(kOtherMac);
  announcement.target_ip = announcement.sender_ip;
  Deliver(announcement);
  ASSERT_TRUE(table_.TakeChange().has_value());
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kOtherMac);
}

TEST_F(NeighborTableTest, RequestForUsIsAnsweredAndTeaches) {
  ArpPacket request = Reply();
  request.operation = ArpPacket::Operation::kRequest;
  request.target_mac = {};
  Deliver(request);
  const ArpPacket reply = OneArp();
  EXPECT_EQ(reply.operation, ArpPacket::Operation::kReply);
  EXPECT_EQ(reply.sender_mac, kOurMac);
  EXPECT_EQ(reply.sender_ip, (ArpPacket::Ipv4Address{192, 0, 2, 1}));
  EXPECT_EQ(reply.target_mac, kPeerMac);
  EXPECT_EQ(reply.target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 2}));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), kPeerMac);
}

TEST_F(NeighborTableTest, RequestForAnotherAddressIsIgnored) {
  ArpPacket request = Reply();
  request.operation = ArpPacket::Operation::kRequest;
  request.target_ip = {192, 0, 2, 99};
  Deliver(request);
  EXPECT_TRUE(Frames().empty());
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), std::nullopt);
}

TEST_F(NeighborTableTest, UnsolicitedReplyIsNotLearned) {
  Deliver(Reply());
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv4), std::nullopt);
}

TEST_F(NeighborTableTest, ClaimOfOurOwnAddressOrAGroupAddressTeachesNothing) {
  ArpPacket claim = Reply();
  claim.operation = ArpPacket::Operation::kRequest;
  claim.sender_ip = {192, 0, 2, 1};
  Deliver(claim);
  claim = Reply({0x01, 0, 0x5e, 0, 0, 1});
  claim.operation = ArpPacket::Operation::kRequest;
  Deliver(claim);
  EXPECT_TRUE(Frames().empty());
  EXPECT_FALSE(table_.TakeChange().has_value());
  EXPECT_EQ(table_.Resolve(now_, kOurIpv4), kOurMac);
}

// RFC 5227: an address probe has no sender address.
TEST_F(NeighborTableTest, ArpProbeIsAnsweredAndTeachesNothing) {
  ArpPacket probe = Reply();
  probe.operation = ArpPacket::Operation::kRequest;
  probe.sender_ip = {};
  Deliver(probe);
  EXPECT_EQ(OneArp().operation, ArpPacket::Operation::kReply);
  EXPECT_FALSE(table_.TakeChange().has_value());
}

TEST_F(NeighborTableTest, SolicitationForUsIsAnsweredAndTeaches) {
  NeighborMessage solicitation;
  solicitation.source = kPeerIpv6;
  solicitation.destination = SolicitedNodeGid(kOurIpv6);
  solicitation.target = kOurIpv6;
  solicitation.link_layer_address = kPeerMac;
  Deliver(solicitation);
  const NeighborMessage answer = OneMessage();
  EXPECT_EQ(answer.type, NeighborMessage::Type::kAdvertisement);
  EXPECT_EQ(answer.source, kOurIpv6);
  EXPECT_EQ(answer.destination, kPeerIpv6);
  EXPECT_EQ(answer.target, kOurIpv6);
  EXPECT_EQ(answer.link_layer_address, kOurMac);
  EXPECT_TRUE(answer.is_solicited);
  EXPECT_TRUE(answer.overrides);
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kPeerMac);
}

// RFC 4861, 7.2.4: to all nodes, and not as solicited.
TEST_F(NeighborTableTest, DuplicateAddressDetectionIsAnsweredToAll) {
  NeighborMessage solicitation;
  solicitation.destination = SolicitedNodeGid(kOurIpv6);
  solicitation.target = kOurIpv6;
  Deliver(solicitation);
  const NeighborMessage answer = OneMessage();
  EXPECT_EQ(answer.destination, kAllNodesGid);
  EXPECT_FALSE(answer.is_solicited);
}

// RFC 4861, 7.2.5.
TEST_F(NeighborTableTest, AdvertisementWithoutOverrideChangesNoAddressInUse) {
  table_.Resolve(now_, kPeerIpv6);
  Deliver(Advertisement(kPeerMac, false));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kPeerMac) << "the first answer counts";
  Deliver(Advertisement(kOtherMac, false));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kPeerMac);
  Deliver(Advertisement(kOtherMac, true));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kOtherMac);
}

TEST_F(NeighborTableTest, AdvertisementOfAGroupAddressTeachesNothing) {
  table_.Resolve(now_, kPeerIpv6);
  Deliver(Advertisement({0x33, 0x33, 0, 0, 0, 1}, true));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), std::nullopt);
  Deliver(Advertisement(kPeerMac, true));
  EXPECT_EQ(table_.Resolve(now_, kPeerIpv6), kPeerMac);
}

TEST_F(NeighborTableTest, SolicitedAdvertisementWithoutAddressConfirms) {
  table_.Resolve(now_, kPeerIpv6);
  Deliver(Advertisement(kPeerMac, true));
  AdvanceToDeadline();
  NeighborMessage confirmation = Advertisement(kPeerMac, false);
  confirmation.link_layer_address.reset();
  Deliver(confirmation);
  EXPECT_EQ(table_.NextDeadline(), now_ + NeighborTable::kReachableTime);
}

TEST_F(NeighborTableTest, OwnAndMulticastAddressesNeedNoAsking) {
  EXPECT_EQ(table_.Resolve(now_, kOurIpv6), kOurMac);
  EXPECT_EQ(table_.Resolve(now_, Gid::FromIpv4({239, 129, 2, 3})),
            (MacAddress{0x01, 0x00, 0x5e, 0x01, 0x02, 0x03}));
  EXPECT_EQ(table_.Resolve(now_, kAllNodesGid), (MacAddress{0x33, 0x33, 0, 0, 0, 1}));
  EXPECT_TRUE(Frames().empty());
}

TEST_F(NeighborTableTest, FramesOfOtherProtocolsAreLeftAlone) {
  FrameBytes frame(64);
  frame[12] = 0x08;  // IPv4
  EXPECT_FALSE(table_.OnFrame(now_, frame));
  EXPECT_FALSE(table_.OnFrame(now_, std::span(frame).first(13)));
  EXPECT_FALSE(table_.OnFrame(now_, {}));
  frame[13] = 0x06;  // broken ARP
  EXPECT_TRUE(table_.OnFrame(now_, frame));
  EXPECT_TRUE(Frames().empty());
}

TEST_F(NeighborTableTest, LeastRecentNeighborIsForgottenWhenTheTableIsFull) {
  for (size_t i = 0; i <= NeighborTable::kMaxNeighbors; ++i) {
    now_ = now_ + Milliseconds(1);
    ArpPacket request = Reply();
    request.operation = ArpPacket::Operation::kRequest;
    request.sender_ip = {10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
    Deliver(request);
    Frames();
  }
  EXPECT_EQ(table_.Resolve(now_, Gid::FromIpv4({10, 1, 0, 1})), kPeerMac);
  EXPECT_EQ(table_.Resolve(now_, Gid::FromIpv4({10, 1, 0, 0})), std::nullopt);
}

TEST_F(NeighborTableTest, QueueOfFramesIsBounded) {
  for (int i = 0; i < 1'000; ++i) {
    ArpPacket request = Reply();
    request.operation = ArpPacket::Operation::kRequest;
    Deliver(request);
  }
  EXPECT_EQ(Frames().size(), NeighborTable::kMaxQueuedFrames);
}

TEST(NeighborTableAddressesTest, EachSubnetIsAskedFromItsAddressAndEachAddressIsAnsweredFor) {
  NeighborTable table({.mac = kOurMac,
                       .addresses = {{Gid::FromIpv4({10, 0, 0, 1}), 24}, {kOurIpv4, 24}},
                       .next_hop = {}});
  FrameBytes frame(256);
  while (table.PollTransmit({}, frame) != 0) {
  }
  for (const ArpPacket::Ipv4Address& ours : {ArpPacket::Ipv4Address{10, 0, 0, 1}, {192, 0, 2, 1}}) {
    const ArpPacket::Ipv4Address theirs = {ours[0], ours[1], ours[2], 2};
    table.Resolve({}, Gid::FromIpv4(theirs));
    const auto request = ParseArp(std::span(frame).first(table.PollTransmit({}, frame)));
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->sender_ip, ours);

    FrameBytes question(kArpFrameBytes);
    EmitArp({.sender_mac = kPeerMac, .sender_ip = theirs, .target_ip = ours}, kBroadcastMac,
            question);
    EXPECT_TRUE(table.OnFrame({}, question));
    const auto reply = ParseArp(std::span(frame).first(table.PollTransmit({}, frame)));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->operation, ArpPacket::Operation::kReply);
    EXPECT_EQ(reply->sender_ip, ours);
    EXPECT_EQ(table.Resolve({}, Gid::FromIpv4(theirs)), kPeerMac);
  }
}

TEST(NeighborTableRouteTest, FarDestinationResolvesToItsGateway) {
  NeighborTable table({.mac = kOurMac, .addresses = {{kOurIpv4}}, .next_hop = [](const Gid& gid) {
                         return gid == kFarIpv4 ? kPeerIpv4 : gid;
                       }});
  FrameBytes frame(256);
  table.PollTransmit({}, frame);  // the announcement
  EXPECT_EQ(table.Resolve({}, kFarIpv4), std::nullopt);
  const auto request = ParseArp(std::span(frame).first(table.PollTransmit({}, frame)));
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->target_ip, (ArpPacket::Ipv4Address{192, 0, 2, 2}));

  ArpPacket reply = *request;
  reply.operation = ArpPacket::Operation::kReply;
  reply.sender_mac = kPeerMac;
  std::swap(reply.sender_ip, reply.target_ip);
  EmitArp(reply, kOurMac, frame);
  EXPECT_TRUE(table.OnFrame({}, std::span(frame).first(kArpFrameBytes)));
  EXPECT_EQ(table.Resolve({}, kFarIpv4), kPeerMac);
  EXPECT_EQ(table.TakeChange()->gid, kPeerIpv4);
  EXPECT_EQ(table.TakeChange()->gid, kFarIpv4) << "queue pairs know the far address only";
}

}  // namespace
}  // namespace uroce::nic
