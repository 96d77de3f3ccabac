// A few thousand simulations, with the same seeds every time.

#include <gtest/gtest.h>

#include "tests/simulation/run.h"

namespace uroce::transport::simulation {
namespace {

// A fault that only a sanitizer sees shows in few seeds, and sanitizers are slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 500;
#else
constexpr uint64_t kSeeds = 2'000;
#endif

class SimulationTest : public testing::TestWithParam<uint64_t> {};

TEST_P(SimulationTest, MemoryCompletionsAndPacketsAreRightForEverySeed) {
  const uint64_t first = GetParam() * kSeeds + 1;
  uint64_t impaired = 0;
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    const RunResult result = RunSeed(seed);
    ASSERT_TRUE(result.ok) << result.failure;
    impaired += result.impaired;
  }
  // The wire impaired frames: these seeds are not harmless by chance.
  EXPECT_GT(impaired, kSeeds);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, testing::Values(0, 1, 2));

TEST(SimulationTest, TheSameSeedGivesTheSameTrace) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const RunResult once = RunSeed(seed);
    const RunResult again = RunSeed(seed);
    EXPECT_EQ(once.trace_hash, again.trace_hash) << "seed " << seed;
    EXPECT_EQ(once.frames, again.frames) << "seed " << seed;
  }
}

TEST(SimulationTest, HeaderPredictionLeavesTheTraceAsItIs) {
  for (uint64_t seed = 1; seed <= kSeeds / 5; ++seed) {
    const RunResult with = RunSeed(seed);
    const RunResult without = RunSeed(seed, {.uses_prediction = false});
    ASSERT_EQ(with.trace_hash, without.trace_hash) << "seed " << seed;
    ASSERT_EQ(with.frames, without.frames) << "seed " << seed;
  }
}

// Frames leave when they are posted, not in turns, so the trace differs.
TEST(SimulationTest, SendingAtOnceIsRightForEverySeed) {
  uint64_t different = 0;
  for (uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    const RunResult result = RunSeed(seed, {.sends_at_once = true});
    ASSERT_TRUE(result.ok) << result.failure;
    if (seed <= 50) different += result.trace_hash != RunSeed(seed).trace_hash;
  }
  EXPECT_GT(different, 10u);
}

TEST(SimulationTest, XrcIsRightForEverySeed) {
  uint64_t impaired = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const RunResult result = RunSeed(seed, {.uses_xrc = true});
    ASSERT_TRUE(result.ok) << result.failure;
    impaired += result.impaired;
  }
  EXPECT_GT(impaired, kSeeds);
}

TEST(SimulationTest, AnotherSeedGivesAnotherTrace) {
  EXPECT_NE(RunSeed(1).trace_hash, RunSeed(2).trace_hash);
}

}  // namespace
}  // namespace uroce::transport::simulation
