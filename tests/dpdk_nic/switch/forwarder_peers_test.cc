// Queries of other hosts whether this one is uroce, which the switch answers, and queries of
// processes, whose answers it delivers.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "dpdk_nic/port/ring/shm_ring.h"
#include "tests/dpdk_nic/switch/forwarder_rig.h"
#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/peers/peer_query.h"
#include "transport/wire/frame_parser.h"

namespace uroce::nic {
namespace {

using control::Block;
using transport::PeerQuery;
using Frame = std::vector<uint8_t>;
using Frames = std::vector<Frame>;

constexpr PeerQuery QueryOf(Block block, transport::Qpn qpn = {}) {
  return {.transaction_id = uint64_t{block} << transport::kTransactionBlockShift | 0x1234,
          .qpn = qpn};
}
constexpr PeerQuery AnswerTo(Block block) { return QueryOf(block).Answer(transport::kOwnFeatures); }

RoceSpec FromWire(const PeerQuery& query, RoceSpec spec = {}) {
  spec.opcode = kUdSendOnly;
  spec.destination_qpn = spec.source_qpn = kManagementQpn;
  const transport::MadBytes mad = transport::EmitPeerQuery(query);
  spec.payload.assign(mad.begin(), mad.end());
  return spec;
}
RoceSpec FromProcess(const PeerQuery& query) { return FromWire(query, ToWire(kUdSendOnly)); }

class ForwarderPeersTest : public ::testing::Test {
 protected:
  void Deliver(const RoceSpec& spec) {
    rig_.cable->Deliver(spec.Build());
    rig_.Run();
  }
  // The answer that the switch gives to a query from the wire about a queue pair.
  static std::optional<PeerQuery> AnswerAbout(ForwarderRig& rig, transport::Qpn qpn) {
    rig.cable->Deliver(FromWire(QueryOf(77, qpn)).Build());
    rig.Run();
    const Frames sent = rig.cable->TakeSent();
    transport::Packet answer;
    if (sent.size() != 1) return std::nullopt;
    if (ParseFrame(sent[0], answer) != transport::DropReason::kNone) return std::nullopt;
    return transport::ParsePeerQuery(answer.payload.data());
  }
  static PeerQuery Expected(transport::Qpn qpn, PeerQuery::Process process) {
    return QueryOf(77, qpn).Answer(transport::kOwnFeatures, process);
  }
  void Send(const RoceSpec& spec) {
    ASSERT_TRUE(alice_.Send(spec.Build()));
    rig_.Run();
  }

  ForwarderRig rig_;
  RingProcess& alice_ = rig_.Process(kAlice);
  RingProcess& bob_ = rig_.Process(kBob);
};

TEST_F(ForwarderPeersTest, QueryFromTheWireIsAnsweredForAllProcesses) {
  const RoceSpec ipv6{.source = kFarIpv6, .destination = kOurIpv6};
  for (const RoceSpec& base : {RoceSpec{}, ipv6}) {
    const RoceSpec query = FromWire(QueryOf(77), base);
    Deliver(query);
    const Frames sent = rig_.cable->TakeSent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(sent[0].size(), query.Build().size()) << "no amplification";
    transport::Packet answer;
    ASSERT_EQ(ParseFrame(sent[0], answer), transport::DropReason::kNone);
    EXPECT_EQ(answer.flow.source, base.destination);
    EXPECT_EQ(answer.flow.destination, base.source);
    EXPECT_TRUE(std::equal(kFarMac.begin(), kFarMac.end(), sent[0].begin()));
    EXPECT_EQ(answer.destination_qpn, kManagementQpn);
    EXPECT_EQ(answer.deth.qkey, transport::kGeneralServicesQkey);
    ASSERT_EQ(answer.payload.size(), transport::kMadBytes);
    EXPECT_EQ(transport::ParsePeerQuery(answer.payload.data()), AnswerTo(77));
  }
  EXPECT_TRUE(alice_.Receive().empty() && bob_.Receive().empty());
  EXPECT_EQ(rig_.counters().peer_queries_answered, 2u);
}

TEST_F(ForwarderPeersTest, OnlyQueuePairOneOfAHostAsks) {
  RoceSpec query = FromWire(QueryOf(77));
  query.source_qpn.value = 0x81;
  Deliver(query);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 1u);
}

TEST_F(ForwarderPeersTest, AnswerGoesToTheProcessThatAsked) {
  const RoceSpec answer = FromWire(AnswerTo(kBob));
  Deliver(answer);
  EXPECT_EQ(bob_.Receive(), Frames{answer.Build()});
  EXPECT_TRUE(alice_.Receive().empty());
  Deliver(FromWire(AnswerTo(kBob + 1)));
  Deliver(FromWire(AnswerTo(0)));
  EXPECT_TRUE(alice_.Receive().empty() && bob_.Receive().empty());
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 2u);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
}

TEST_F(ForwarderPeersTest, ProcessAsksInItsOwnNameOnly) {
  const RoceSpec query = FromProcess(QueryOf(kAlice));
  Send(query);
  EXPECT_EQ(rig_.cable->TakeSent(), Frames{query.Build()});
  Send(FromProcess(QueryOf(kBob)));
  Send(FromProcess(AnswerTo(kAlice)));
  RoceSpec of_other_queue_pair = query;
  of_other_queue_pair.source_qpn = QpOf(kAlice, 1);
  Send(of_other_queue_pair);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 3u);
}

TEST_F(ForwarderPeersTest, QueryAboutAProcessIsAnsweredAndReachesIt) {
  const transport::Qpn qpn = QpOf(kBob, 7);
  EXPECT_EQ(AnswerAbout(rig_, qpn), Expected(qpn, PeerQuery::Process::kLives));
  EXPECT_EQ(bob_.Receive(), Frames{FromWire(QueryOf(77, qpn)).Build()});
  EXPECT_TRUE(alice_.Receive().empty());
}

TEST_F(ForwarderPeersTest, ProcessTellsThatItRunsOnlyOfItself) {
  const PeerQuery query = QueryOf(77, QpOf(kAlice, 7));
  const RoceSpec runs =
      FromProcess(query.Answer(transport::kOwnFeatures, PeerQuery::Process::kRuns));
  Send(runs);
  EXPECT_EQ(rig_.cable->TakeSent(), Frames{runs.Build()});
  const PeerQuery of_bob = QueryOf(77, QpOf(kBob, 7));
  Send(FromProcess(of_bob.Answer(transport::kOwnFeatures, PeerQuery::Process::kRuns)));
  Send(FromProcess(query.Answer(transport::kOwnFeatures, PeerQuery::Process::kLives)));
  Send(FromProcess(query.Answer(transport::kOwnFeatures)));
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 3u);
}

TEST_F(ForwarderPeersTest, StoppedProcessLivesHoweverFullItsRing) {
  const transport::Qpn qpn = QpOf(kBob, 7);
  for (uint32_t i = 0; i < 2 * kSlots; ++i) {
    ASSERT_EQ(AnswerAbout(rig_, qpn), Expected(qpn, PeerQuery::Process::kLives));
  }
}

TEST_F(ForwarderPeersTest, ProcessThatHasEndedIsGone) {
  const transport::Qpn qpn = QpOf(kBob, 7);
  rig_.RunFor(Forwarder::kReattachWithin + transport::Milliseconds(2));
  EXPECT_EQ(AnswerAbout(rig_, qpn), Expected(qpn, PeerQuery::Process::kLives));
  rig_.forwarder.Remove(rig_.now, kBob);
  EXPECT_EQ(AnswerAbout(rig_, qpn), Expected(qpn, PeerQuery::Process::kGone));
  for (const transport::Qpn unknown : {QpOf(kBob + 1, 7), transport::Qpn{2}}) {
    EXPECT_EQ(AnswerAbout(rig_, unknown), Expected(unknown, PeerQuery::Process::kGone));
  }
}

// A stopped process does not come to a uroced that was started anew.
TEST_F(ForwarderPeersTest, ProcessOfAnEarlierSwitchLivesForAMoment) {
  const transport::Qpn qpn = QpOf(kBob, 7);
  ForwarderRig anew;
  anew.RunOnce();
  EXPECT_EQ(AnswerAbout(anew, qpn), Expected(qpn, PeerQuery::Process::kLives));
  anew.RunFor(Forwarder::kReattachWithin + transport::Milliseconds(2));
  EXPECT_EQ(AnswerAbout(anew, qpn), Expected(qpn, PeerQuery::Process::kGone));
}

TEST_F(ForwarderPeersTest, ProcessesOfThisHostAreNotAsked) {
  RoceSpec query = FromProcess(QueryOf(kAlice));
  query.destination = kOurIpv4;
  Send(query);
  EXPECT_TRUE(alice_.Receive().empty() && bob_.Receive().empty());
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().dropped_unknown_destination, 1u);
  ForwarderRig without_wire({.has_wire = false});
  ASSERT_TRUE(without_wire.Process(kAlice).Send(FromProcess(QueryOf(kAlice)).Build()));
  without_wire.Run();
  EXPECT_EQ(without_wire.counters().dropped_unknown_destination, 1u);
}

TEST_F(ForwarderPeersTest, QueryThatBreaksARuleIsNotAnswered) {
  RoceSpec other_version = FromWire(QueryOf(77));
  other_version.payload[2] = 2;
  Deliver(other_version);
  RoceSpec other_vendor = FromWire(QueryOf(77));
  other_vendor.payload[39] ^= 1;
  Deliver(other_vendor);
  EXPECT_EQ(rig_.counters().dropped_malformed, 2u);
  Deliver(FromWire(QueryOf(77), {.source = kGroup}));
  Deliver(FromWire(QueryOf(77), {.source_mac = {3, 0, 0, 0, 0, 1}}));
  Deliver(FromWire(QueryOf(77), {.source = kOurIpv4}));
  EXPECT_EQ(rig_.counters().dropped_foreign_source, 3u);
  EXPECT_TRUE(rig_.cable->TakeSent().empty());
  EXPECT_EQ(rig_.counters().peer_queries_answered, 0u);
}

TEST_F(ForwarderPeersTest, FloodOfAnswersIsNotQueued) {
  constexpr uint32_t kFlood = 2 * kSlots;
  for (uint32_t i = 0; i < kFlood; ++i) Deliver(FromWire(AnswerTo(kBob)));
  size_t received = 0;
  for (Frames frames = bob_.Receive(); !frames.empty(); frames = bob_.Receive()) {
    received += frames.size();
    rig_.Run();
  }
  EXPECT_EQ(received + rig_.counters().dropped_no_room, kFlood);
  EXPECT_LE(received, kSlots);
}

}  // namespace
}  // namespace uroce::nic
