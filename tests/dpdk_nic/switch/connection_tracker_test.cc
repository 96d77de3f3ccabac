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
  const transport::cm::MadBytes mad = transport::cm::EmitMessage(
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

}  // namespace
}  // namespace uroce::nic
