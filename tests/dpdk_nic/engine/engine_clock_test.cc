#include "dpdk_nic/engine/engine_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

// Between two readings of the real clock, give or take what a rate measured over a millisecond can
// be wrong by in the next.
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
  // Being interrupted at the wrong moment spoils a millisecond at most.
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

// As it is when the real clock is made slower than the counter ran before.
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
