// ibv_query_qp is right while traffic flows (IBA 11.2.5.3): sq_psn is the next PSN to be sent,
// rq_psn the next expected, and cap the granted capabilities.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/states.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;

TEST(QueryTest, SqPsnFollowsSentPackets) {
  Script script;
  const Psn first = script.first_psn();
  const auto sq_psn = [&] { return script.qp().Query().sq_psn; };
  EXPECT_EQ(sq_psn(), first);
  script.HoldTransmit();
  script.PostSend(1, 0, 3 * kPart);
  EXPECT_EQ(sq_psn(), first) << "posted is not sent";
  script.TransmitOne();
  EXPECT_EQ(sq_psn(), first + 1);
  script.ReleaseTransmit();
  EXPECT_EQ(sq_psn(), first + 3);
  script.PostRead(2, 0, 5 * kPart);
  EXPECT_EQ(sq_psn(), first + 8) << "a READ takes the PSNs of its response";

  // Going back shows too: sq_psn is the PSN at which sending continues.
  script.HoldTransmit();
  script.Inject(Nak(first + 1, NakCode::kPsnSequenceError));
  EXPECT_EQ(sq_psn(), first + 1);
  script.ReleaseTransmit();
  EXPECT_EQ(sq_psn(), first + 8);
  script.TakeSent();
}

TEST(QueryTest, RqPsnFollowsAcceptedPackets) {
  Script script;
  const Psn first = script.peers_first_psn();
  const auto rq_psn = [&] { return script.qp().Query().rq_psn; };
  EXPECT_EQ(rq_psn(), first);
  script.Inject(Write(Position::kOnly, first));
  EXPECT_EQ(rq_psn(), first + 1);
  script.Inject(Read(first + 1, Script::Address(0), script.rkey(), 4 * kPart));
  EXPECT_EQ(rq_psn(), first + 5);
  script.Inject(Write(Position::kOnly, first + 6));  // a gap
  script.Inject(Write(Position::kOnly, first));      // a duplicate
  script.Inject(Send(Position::kOnly, first + 5));   // no receive request
  EXPECT_EQ(rq_psn(), first + 5);
  script.TakeSent();
}

TEST(QueryTest, CapabilitiesAreThoseGrantedInEveryState) {
  for (const auto& [type, state] : EveryState()) {
    Script script({.type = type, .queue_depth = 7, .state = state});
    EXPECT_EQ(script.qp().Query().capabilities, (QpCapabilities{7, 7, 4, 4, 256}));
    EXPECT_EQ(script.qp().Query().state, state);
    EXPECT_EQ(script.qp().Query().current_state, state);
  }
}

// A failure shows at once, before its completion is polled.
TEST(QueryTest, TheStateIsLive) {
  Script script;
  script.HoldCompletions();
  script.PostSend(1, 0, 8);
  script.TakeSent();
  script.Inject(Nak(script.first_psn(), NakCode::kInvalidRequest));
  EXPECT_EQ(script.qp().Query().state, QpState::kError);
  script.ReleaseCompletions();
  script.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
