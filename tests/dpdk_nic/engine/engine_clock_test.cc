#include "dpdk_nic/engine/engine_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

// A reading is between two readings of the real clock. The tolerance is the error, over a
// millisecond, of a rate that was measured over the millisecond before.
TEST(EngineClockTest, FollowsTheRealClockAndNeverGoesBack) {
  EngineClock clock;
  constexpr transport::Duration kTolerance = transport::Microseconds(20);
  const transport::Time end = Now() + transport::Milliseconds(100);
  transport::Time last{0};
  int readings = 0, wrong = 0;
  for (; last < end; ++readings) {
    const transport::Time before = Now();
    const transport::Time now = clock.Now();
    const transport::Time after = Now();
    ASSERT_GE(now, last);
    if (now + kTolerance < before || now > after + kTolerance) ++wrong;
    last = now;
  }
  // An interruption at the wrong moment spoils a millisecond at most.
  EXPECT_LT(wrong, readings / 4);
}

TEST(EngineClockTest, IsRightAfterALongPause) {
  EngineClock clock;
  for (int i = 0; i < 3; ++i) {
    usleep(20'000);
    const transport::Time before = Now();
    EXPECT_GE(clock.Now(), before);
    EXPECT_LE(clock.Now(), Now() + transport::Milliseconds(1));
  }
}

// This happens when the real clock is slowed down to less than the measured rate of the counter.
TEST(EngineClockTest, WaitsForARealClockThatIsBehind) {
  static int64_t real_ns;
  EngineClock clock([] { return transport::Time{real_ns}; });
  const auto now_at = [&](int64_t ns) {
    real_ns = ns;
    return clock.Now().ns;
  };
  EXPECT_EQ(now_at(2'000), 2'000);
  EXPECT_EQ(now_at(1'000), 2'000);
  EXPECT_EQ(now_at(2'001), 2'001);
}

}  // namespace
}  // namespace uroce::nic
