// The oracles can fail: what is broken on purpose is noticed.

#include <gtest/gtest.h>

#include "tests/simulation/run.h"

namespace uroce::simulation {
namespace {

constexpr uint64_t kSeeds = 40;

// How many of the seeds notice. Not every run has what the sabotage wants to spoil.
uint64_t SeedsThatNotice(const RunOptions& options, const char* expected_reason) {
  uint64_t noticed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (MakeScenario(seed).DataMayBeWrong()) continue;
    const RunResult result = RunSeed(seed, options);
    if (result.ok) continue;
    EXPECT_NE(result.failure.find(expected_reason), std::string::npos) << result.failure;
    EXPECT_NE(result.failure.find("--seed " + std::to_string(seed) + " --trace"), std::string::npos)
        << "a failure says how to see it again";
    ++noticed;
  }
  return noticed;
}

TEST(NegativeControlTest, AFlippedPayloadBitUnderARightIcrcIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.flip_payload_bit = true}, "byte"), kSeeds / 2);
}

TEST(NegativeControlTest, ALostCompletionIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kLoseCompletion}, ""), kSeeds / 2);
}

TEST(NegativeControlTest, ARepeatedCompletionIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kRepeatCompletion}, ""), kSeeds / 2);
}

TEST(NegativeControlTest, AByteWrittenIntoExposedMemoryIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kScribble}, "byte"), kSeeds / 4);
}

TEST(NegativeControlTest, AByteWrittenIntoAReceiveIsNoticed) {
  EXPECT_GT(
      SeedsThatNotice({.sabotage = Sabotage::kScribbleReceived}, "in the memory of a receive"),
      kSeeds / 4);
}

TEST(NegativeControlTest, AWrongImmediateIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kWrongImmediate}, "a receive completes as"),
            kSeeds / 4);
}

}  // namespace
}  // namespace uroce::simulation
