#include "tests/system/network/bottleneck.h"

#include <gtest/gtest.h>

namespace uroce::network {
namespace {

using transport::Microseconds;
using transport::Milliseconds;

constexpr size_t kFrameBytes = 976;  // 1000 on the link

Bottleneck Make(std::initializer_list<std::pair<const char*, double>> properties) {
  Bottleneck path(1);
  for (const auto& [key, value] : properties) EXPECT_TRUE(path.settings().Set(key, value)) << key;
  return path;
}

TEST(BottleneckTest, PerfectPathDeliversAtOnce) {
  Bottleneck path = Make({});
  const auto transit = path.Send({5}, kFrameBytes);
  EXPECT_EQ(transit.fate, Fate::kDelivered);
  EXPECT_EQ(transit.arrival.ns, 5);
  EXPECT_FALSE(path.settings().Set("colour", 1));
}

TEST(BottleneckTest, FramesLeaveAtTheRateAndArriveAfterTheDelay) {
  Bottleneck path = Make({{"rate", 1e9}, {"delay", 100}});
  EXPECT_EQ(path.Send({}, kFrameBytes).arrival.ns, 8'000 + 100'000);
  EXPECT_EQ(path.BacklogBytes({}), 1000u);
  EXPECT_EQ(path.Send({}, kFrameBytes).arrival.ns, 16'000 + 100'000);
  EXPECT_EQ(path.BacklogBytes(Time{16'000}), 0u);
}

TEST(BottleneckTest, FullQueueDropsAndLongQueueMarks) {
  Bottleneck path = Make({{"rate", 1e9}, {"queue", 3'000}, {"mark", 999}});
  EXPECT_FALSE(path.Send({}, kFrameBytes).is_marked);
  EXPECT_TRUE(path.Send({}, kFrameBytes).is_marked);
  EXPECT_TRUE(path.Send({}, kFrameBytes).is_marked);
  EXPECT_EQ(path.Send({}, kFrameBytes).fate, Fate::kQueueFull);
  EXPECT_EQ(path.Send(Time{8'000}, kFrameBytes).fate, Fate::kDelivered);
}

TEST(BottleneckTest, TooLongFramesAndThoseOfAnOutageVanish) {
  Bottleneck path = Make({{"mtu", kFrameBytes - 14}});
  EXPECT_EQ(path.Send({}, kFrameBytes).fate, Fate::kDelivered);
  EXPECT_EQ(path.Send({}, kFrameBytes + 1).fate, Fate::kTooLong);
  path.TakeDown(Time{} + Milliseconds(1));
  EXPECT_EQ(path.Send({}, kFrameBytes).fate, Fate::kPathDown);
  EXPECT_EQ(path.Send(Time{} + Milliseconds(1), kFrameBytes).fate, Fate::kDelivered);
}

TEST(BottleneckTest, LossesHaveTheShareAndTheLengthThatWereAskedFor) {
  constexpr int kFrames = 200'000;
  Bottleneck alone = Make({{"loss", 0.01}});
  Bottleneck bursts = Make({{"burst", 0.001}, {"burst_frames", 10}});
  int lost = 0;
  int lost_in_bursts = 0;
  for (int i = 0; i < kFrames; ++i) {
    lost += alone.Send({}, kFrameBytes).fate == Fate::kLost;
    lost_in_bursts += bursts.Send({}, kFrameBytes).fate == Fate::kLost;
  }
  EXPECT_NEAR(lost, kFrames * 0.01, kFrames * 0.001);
  EXPECT_NEAR(lost_in_bursts, kFrames * 0.01, kFrames * 0.002);
}

TEST(BottleneckTest, JitterKeepsTheOrderAndLateFramesDoNot) {
  Bottleneck jitter = Make({{"jitter", 100}});
  Bottleneck late = Make({{"late", 0.5}, {"late_by", 50}});
  Time last;
  int overtaken = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Time now = Time{} + Microseconds(i);
    const Time arrival = jitter.Send(now, kFrameBytes).arrival;
    EXPECT_GE(arrival, last);
    EXPECT_LE(arrival, now + Microseconds(100));
    last = arrival;
    overtaken += late.Send(now, kFrameBytes).arrival == now + Microseconds(50);
  }
  EXPECT_NEAR(overtaken, 500, 100);
}

}  // namespace
}  // namespace uroce::network
