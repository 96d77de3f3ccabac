#include "dpdk_nic/switch/connection_tracker.h"

#include <gtest/gtest.h>

#include "tests/dpdk_nic/switch/switch_frames.h"
#include "transport/cm/message_codec.h"
#include "transport/cm/messages.h"

namespace uroce::nic {
namespace {

// Bob accepts a connection that a host beyond the wire asked for.
void Accept(ConnectionTracker& tracker, uint32_t number, uint32_t remote_qpn) {
  RoceHeaders headers;
  headers.source = kOurIpv4;
  headers.destination = kFarIpv4;
  const transport::MadBytes mad = transport::cm::EmitMessage(
      1, transport::cm::Rep{.local_id = {CommunicationId(kBob, number)}, .remote_id = {number}});
  tracker.Follow(kBob, control::kSwitchBlock, headers, mad, {remote_qpn});
}

TEST(ConnectionTrackerTest, FullTableTakesNoNewConnectionAndFollowsTheOldOnes) {
  ConnectionTracker tracker;
  constexpr uint32_t kTooMany = 10;
  for (uint32_t i = 0; i < ConnectionTracker::kMaxConnections + kTooMany; ++i) {
    Accept(tracker, i, /*remote_qpn=*/100);
  }
  Accept(tracker, 0, /*remote_qpn=*/200);
  const auto ended = tracker.Remove(kBob);
  ASSERT_EQ(ended.size(), ConnectionTracker::kMaxConnections);
  EXPECT_EQ(ended[0].local_id.value, CommunicationId(kBob, 0));
  EXPECT_EQ(ended[0].remote_qpn.value, 200u) << "the peer answered once more";
}

// A host of the wire sends replies that no request of Bob asked for.
TEST(ConnectionTrackerTest, RepWithoutItsReqTakesNoPlace) {
  ConnectionTracker tracker;
  const auto reply = [&](uint32_t number, uint32_t requester_qpn) {
    RoceHeaders headers;
    headers.source = kFarIpv4;
    headers.destination = kOurIpv4;
    const transport::MadBytes mad = transport::cm::EmitMessage(
        1, transport::cm::Rep{.local_id = {number},
                              .remote_id = {CommunicationId(kBob, number)},
                              .local_qpn = {300}});
    tracker.Follow(control::kSwitchBlock, kBob, headers, mad, {requester_qpn});
  };
  for (uint32_t i = 1; i <= ConnectionTracker::kMaxConnections; ++i) reply(i, 0);
  reply(0xffff, 100);
  const auto ended = tracker.Remove(kBob);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].remote_id.value, 0xffffu);
  EXPECT_EQ(ended[0].remote_qpn.value, 300u);
}

// The REP was lost on its way, or the RTU.
TEST(ConnectionTrackerTest, RepThatIsRepeatedOpensNoConnectionThatEnds) {
  ConnectionTracker tracker;
  Accept(tracker, 7, /*remote_qpn=*/100);
  const transport::Time now{1'000};
  auto* const connection = tracker.Find(kBob, {CommunicationId(kBob, 7)}, {7}, kFarIpv4);
  ASSERT_NE(connection, nullptr);
  tracker.BeginDisconnect(now, *connection, 1);
  Accept(tracker, 7, /*remote_qpn=*/100);
  EXPECT_EQ(tracker.TakeDue(now + ConnectionTracker::kAnswerWithin), connection);
  EXPECT_EQ(tracker.TakeDue(now + ConnectionTracker::kAnswerWithin), nullptr);
}

// The number of an id comes again, after the connection that a DREQ ended.
TEST(ConnectionTrackerTest, TimeOfAnEarlierConnectionMeansNothing) {
  ConnectionTracker tracker;
  const transport::Time now{1'000};
  const transport::Duration later{10};
  const auto begin = [&](transport::Time at) {
    Accept(tracker, 7, /*remote_qpn=*/100);
    auto* const connection = tracker.Find(kBob, {CommunicationId(kBob, 7)}, {7}, kFarIpv4);
    tracker.BeginDisconnect(at, *connection, 1);
  };
  begin(now);
  tracker.Remove(kBob);
  begin(now + later);
  EXPECT_EQ(tracker.TakeDue(now + ConnectionTracker::kAnswerWithin), nullptr);
  EXPECT_NE(tracker.TakeDue(now + later + ConnectionTracker::kAnswerWithin), nullptr);
}

}  // namespace
}  // namespace uroce::nic
