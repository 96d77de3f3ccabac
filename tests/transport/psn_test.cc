#include "transport/psn.h"

#include <gtest/gtest.h>

#include "transport/time.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kHalf = 1u << 23;

TEST(PsnTest, CountsModulo2To24) {
  EXPECT_EQ(Psn(0), Psn(0xff'ffff) + 1);
  EXPECT_EQ(Psn(0xff'ffff), Psn(0) - 1);
  EXPECT_EQ(Psn(5), Psn(0x100'0005));
  Psn psn(0xff'fffe);
  ++psn;
  EXPECT_EQ(Psn(0xff'ffff), psn);
  ++psn;
  EXPECT_EQ(Psn(0), psn);
}

TEST(PsnTest, DistanceIsSignedAcrossTheWrap) {
  EXPECT_EQ(2, Psn(1).DistanceFrom(Psn(0xff'ffff)));
  EXPECT_EQ(-2, Psn(0xff'ffff).DistanceFrom(Psn(1)));
  EXPECT_EQ(0, Psn(7).DistanceFrom(Psn(7)));
}

// IBA 9.7.1: half of the number space lies ahead, half behind.
TEST(PsnTest, HalfOfTheSpaceIsTheLimit) {
  for (const uint32_t start : {0u, 1u, 0x7f'ffffu, 0x80'0000u, 0xff'ffffu}) {
    const Psn psn(start);
    EXPECT_TRUE((psn + (kHalf - 1)).IsAfter(psn));
    EXPECT_TRUE((psn + kHalf).IsBefore(psn));
    EXPECT_EQ(static_cast<int32_t>(kHalf - 1), (psn + (kHalf - 1)).DistanceFrom(psn));
    EXPECT_EQ(-static_cast<int32_t>(kHalf), (psn + kHalf).DistanceFrom(psn));
  }
}

TEST(PsnTest, OrderIsStrict) {
  const Psn psn(42);
  EXPECT_FALSE(psn.IsBefore(psn));
  EXPECT_FALSE(psn.IsAfter(psn));
  EXPECT_TRUE(psn.IsBefore(psn + 1));
  EXPECT_TRUE(psn.IsAfter(psn - 1));
}

TEST(TimeTest, Arithmetic) {
  const Time start{1'000};
  EXPECT_EQ((Time{6'000}), start + Microseconds(5));
  EXPECT_EQ(Milliseconds(1), Microseconds(1'000));
  EXPECT_EQ(Microseconds(5), (start + Microseconds(5)) - start);
  EXPECT_EQ(Microseconds(12), Microseconds(4) * 3);
  EXPECT_LT(start, kNever);
}

}  // namespace
}  // namespace uroce::transport
