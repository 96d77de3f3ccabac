// The ACK timer of a requester that cannot send.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "transport/time.h"

namespace uroce::transport::packet_scripts {
namespace {

// IBA C9-139: a wire that takes no frames from us counts as a silent peer.
TEST(AckTimerTest, RunsOnWhileNothingCanBeSentAgain) {
  Script script({.timeout = 14, .retry_count = 1});  // 67.1 ms
  script.PostWrite(1, 0, 8);
  EXPECT_EQ(script.TakeSent().size(), 1u);
  script.HoldTransmit();
  script.Advance(Milliseconds(130));
  script.ExpectNoCompletion();
  script.Advance(Milliseconds(10));
  script.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  script.ExpectState(QpState::kError);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
