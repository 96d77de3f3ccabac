#include "transport/random_numbers.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::transport {
namespace {

// The numbers are from an independent implementation in another language, which agrees with the
// vectors of the paper (whose messages are no counters).
TEST(RandomNumbersTest, AreSipHashOfACounter) {
  constexpr Seed kSeed = {0x0706'0504'0302'0100, 0x0f0e'0d0c'0b0a'0908};
  RandomNumbers numbers(kSeed, 0);
  EXPECT_EQ(numbers.Next(), 0x39d3'851c'a076'81a7);
  EXPECT_EQ(numbers.Next(), 0x2b91'b2b0'85e6'd1f6);
  EXPECT_EQ(RandomNumbers(kSeed, 5).Next(), 0xa365'da08'd86f'4f22);
}

TEST(RandomNumbersTest, BoundIsNeverReached) {
  RandomNumbers numbers({}, 0);
  std::set<uint32_t> seen;
  for (int i = 0; i < 1'000; ++i) seen.insert(numbers.Below(7));
  EXPECT_EQ(seen, (std::set<uint32_t>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace uroce::transport
