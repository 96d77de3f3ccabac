// How connections react to users that end, and to too many peers.
#include "transport/cm/limits.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "tests/transport/cm/manager_pair.h"
#include "transport/wire/byte_order.h"

namespace uroce::transport::cm {
namespace {

class CmLimitsTest : public testing::Test, protected ManagerPair {
 protected:
  void ExpectNothingLeft() { EXPECT_TRUE(NothingIsLeft()); }
  const Counters& counters() const { return passive.manager.counters(); }
};

// --- destroying

TEST_F(CmLimitsTest, DestroyNotifiesThePeerInEveryState) {
  const CommunicationId listener = Listen();
  const auto reason_at_active = [this] {
    ToActive();
    const auto event = active.OnlyEvent(EventKind::kRejReceived);
    return event ? std::get<Rej>(event->message).reason : RejectReason{};
  };
  Ends ends = Ask();  // the passive side has not answered
  passive.manager.Destroy(now, ends.passive);
  EXPECT_EQ(reason_at_active(), RejectReason::kConsumerDefined);
  active.manager.Destroy(now, ends.active);

  ends = Ask(0x112);  // the active side gives up
  active.manager.Destroy(now, ends.active);
  ToPassive();
  auto event = passive.OnlyEvent(EventKind::kRejReceived);
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<Rej>(event->message).reason, RejectReason::kTimeout);
  EXPECT_EQ(Load64(std::get<Rej>(event->message).additional_information.data()), 0x1001u);
  EXPECT_EQ(PassiveState(ends), State::kIdle);
  passive.manager.Destroy(now, ends.passive);

  ends = AskAndAccept(0x113);  // the active side refuses the reply
  active.manager.Destroy(now, ends.active);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kRejReceived));
  passive.manager.Destroy(now, ends.passive);

  ends = Establish(0x114);  // the DREQ continues without the user
  active.manager.Destroy(now, ends.active);
  EXPECT_FALSE(active.manager.StateOf(ends.active));
  (void)active.TakeMads();
  AdvanceTo(active);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kDreqReceived));
  passive.manager.Destroy(now, ends.passive);
  ToActive();
  EXPECT_FALSE(active.manager.HasEvent());
  passive.manager.Destroy(now, listener);
  ExpectNothingLeft();
}

TEST_F(CmLimitsTest, DestroyTakesBackEvents) {
  Listen();
  const Ends ends = Ask();
  (void)passive.manager.Reject(now, ends.passive, {});
  ToActive();
  EXPECT_TRUE(active.manager.HasEvent());
  active.manager.Destroy(now, ends.active);
  EXPECT_FALSE(active.manager.HasEvent());
}

TEST_F(CmLimitsTest, AbandonedRequestComesAgain) {
  Listen();
  const Ends ends = Ask();
  passive.manager.Abandon(now, ends.passive);
  EXPECT_TRUE(passive.TakeMads().empty());
  AdvanceTo(active);
  ToPassive();
  EXPECT_TRUE(passive.OnlyEvent(EventKind::kReqReceived));
}

// --- limits

TEST_F(CmLimitsTest, FullBacklogDropsRequests) {
  Listen(kService, 2);
  Ask(1);
  const Ends second = Ask(2);
  EXPECT_EQ(Ask(3).passive, CommunicationId{});
  EXPECT_EQ(counters().backlog_full, 1u);
  EXPECT_TRUE(passive.TakeMads().empty());
  (void)passive.manager.Accept(now, second.passive, Acceptance());
  EXPECT_NE(Ask(4).passive, CommunicationId{});
}

TEST_F(CmLimitsTest, HalfOpenConnectionsAreLimited) {
  Listen(kService, 100'000);
  const auto flood = [this](uint8_t peer, uint32_t count) {
    const Side side(peer);
    for (uint32_t i = 0; i < count; ++i) {
      Req req{.local_id = {i + 1},
              .service_id = kService,
              .local_ca_guid = peer,
              .local_qpn = {i + 1},
              .path_mtu = 1};
      req.primary.local_gid = side.gid;
      passive.manager.OnMad(now, EmitMessage(i, req), passive.AddressOf(side));
    }
  };
  flood(11, kMaxHalfOpenPerPeer + 10);
  EXPECT_EQ(passive.manager.half_open_count(), kMaxHalfOpenPerPeer);
  EXPECT_EQ(counters().half_open_full, 10u);
  const std::vector<MadBytes> answers = passive.TakeMads();
  ASSERT_EQ(answers.size(), 10u) << "at once: the peer would repeat its request only after seconds";
  EXPECT_EQ(As<Rej>(answers[0])->reason, RejectReason::kNoResources);
  EXPECT_EQ(As<Rej>(answers[0])->remote_id.value, kMaxHalfOpenPerPeer + 1);
  for (uint8_t peer = 12; peer < 20; ++peer) flood(peer, kMaxHalfOpenPerPeer);
  EXPECT_EQ(passive.manager.half_open_count(), kMaxHalfOpen);
  // Expect: room again as users answer.
  while (auto event = passive.manager.TakeEvent()) passive.manager.Abandon(now, event->id);
  EXPECT_EQ(passive.manager.half_open_count(), 0u);
  EXPECT_EQ(passive.manager.remote_count(), 0u);
  flood(11, 1);
  EXPECT_EQ(passive.manager.half_open_count(), 1u);
}

// The peer asks for many connections before it confirms the first one.
TEST_F(CmLimitsTest, AcceptedConnectionsAreNotAmongThoseThatAreHalfOpen) {
  Listen(kService, 1);
  for (uint32_t i = 1; i <= kMaxHalfOpenPerPeer + 10; ++i) {
    const Ends ends = AskAndAccept(i);
    ASSERT_EQ(PassiveState(ends), State::kRepSent);
    ASSERT_EQ(ActiveState(ends), State::kRepReceived);
  }
  EXPECT_EQ(passive.manager.half_open_count(), 0u);
}

TEST_F(CmLimitsTest, AllQueuePairsOfAProcessMayConnectAtOnce) {
  for (uint32_t i = 1; i <= kMaxQps; ++i) {
    (void)active.manager.Connect(now, *active.manager.Create(), Request(i));
  }
  EXPECT_EQ(active.TakeMads().size(), kMaxQps);
  EXPECT_EQ(active.manager.counters().transmit_full, 0u);
}

TEST_F(CmLimitsTest, RefusalsLeaveRoomForConnections) {
  const Side side(9);
  for (uint32_t i = 0; i < 5'000; ++i) {
    passive.manager.OnMad(now, EmitMessage(i, Dreq{.local_id = {i + 1}, .remote_id = {i + 2}}),
                          passive.AddressOf(side));
  }
  EXPECT_EQ(passive.TakeMads().size(), kMaxQueuedRefusals);
  EXPECT_EQ(counters().transmit_full, 5'000 - kMaxQueuedRefusals);
}

TEST_F(CmLimitsTest, TimewaitGivesWayWhenIdsRunOut) {
  ConnectionManager small({.ca_guid = 1, .max_ids = 2});
  std::array<CommunicationId, 2> ids{};
  const Side peer(2);
  for (CommunicationId& id : ids) {
    id = *small.Create();
    (void)small.Connect(now, id, Request());
    small.OnMad(now, EmitMessage(1, Rej{.remote_id = id, .reason = RejectReason::kStaleConnection}),
                passive.AddressOf(peer));
    ASSERT_EQ(small.StateOf(id), State::kTimewait);
  }
  EXPECT_EQ(small.Create(), std::nullopt);
  small.Destroy(now, ids[0]);
  EXPECT_EQ(small.id_count(), 2u);
  EXPECT_TRUE(small.Create());
  EXPECT_EQ(small.counters().timewait_cut, 1u);
  EXPECT_EQ(small.Create(), std::nullopt);
}

TEST_F(CmLimitsTest, RefusalsCarryThePrefixToo) {
  ConnectionManager manager({.seed = {1, 2}, .id_prefix = 0x3ff, .id_prefix_bits = 10});
  (void)active.manager.Connect(now, *active.manager.Create(), Request());
  const MadBytes req = active.TakeMads().at(0);
  manager.OnMad(now, req, passive.AddressOf(active));
  EXPECT_EQ(As<Rej>(manager.PollTransmit()->mad)->local_id, CommunicationId{0xffc0'0000});
  ASSERT_EQ(manager.Listen(*manager.Create(), kService), Status::kOk);
  manager.OnMad(now, req, passive.AddressOf(active));
  (void)manager.Reject(now, manager.TakeEvent()->id, {});
  EXPECT_EQ(As<Rej>(manager.PollTransmit()->mad)->local_id, CommunicationId{0xffc0'0000});
}

TEST_F(CmLimitsTest, IdsCarryThePrefixAndCannotBeGuessed) {
  ConnectionManager manager({.seed = {1, 2}, .id_prefix = 0x3ff, .id_prefix_bits = 10});
  ConnectionManager other({.seed = {1, 3}, .id_prefix = 0x3ff, .id_prefix_bits = 10});
  std::set<uint32_t> ids;
  int same = 0;
  for (int i = 0; i < 1'000; ++i) {
    const CommunicationId id = *manager.Create();
    EXPECT_EQ(id.value >> 22, 0x3ffu);
    ids.insert(id.value);
    same += id == *other.Create() ? 1 : 0;
  }
  EXPECT_EQ(ids.size(), 1'000u);
  EXPECT_EQ(same, 0);
}

}  // namespace
}  // namespace uroce::transport::cm
