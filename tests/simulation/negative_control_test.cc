// Proves that the oracles can fail: they notice each fault injected on purpose.

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/simulation/run.h"

namespace uroce::transport::simulation {
namespace {

constexpr uint64_t kSeeds = 60;

// How many of the seeds notice the fault. Not every run has something to spoil.
uint64_t SeedsThatNotice(const RunOptions& options,
                         std::initializer_list<const char*> expected_reasons) {
  uint64_t noticed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (MakeScenario(seed).DataMayBeWrong()) continue;
    const RunResult result = RunSeed(seed, options);
    if (result.ok) continue;
    bool expected = false;
    for (const char* reason : expected_reasons) {
      expected |= result.failure.find(reason) != std::string::npos;
    }
    EXPECT_TRUE(expected) << result.failure;
    EXPECT_NE(result.failure.find("--seed " + std::to_string(seed) + " --trace"), std::string::npos)
        << "a failure says how to see it again";
    ++noticed;
  }
  return noticed;
}

TEST(NegativeControlTest, AFlippedPayloadBitUnderARightIcrcIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.tampering = Tampering::kFlipPayloadBit},
                            {"byte", "a receive of nothing", "that nobody sent"}),
            kSeeds / 2);
}

TEST(NegativeControlTest, ALostCompletionIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kLoseCompletion}, {""}), kSeeds / 2);
}

TEST(NegativeControlTest, ARepeatedCompletionIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kRepeatCompletion}, {""}), kSeeds / 2);
}

TEST(NegativeControlTest, AByteWrittenIntoExposedMemoryIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kScribble}, {"byte"}), kSeeds / 4);
}

TEST(NegativeControlTest, AByteWrittenIntoAReceiveIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kScribbleReceived},
                            {"in the memory of a receive", "a receive of nothing"}),
            kSeeds / 4);
}

TEST(NegativeControlTest, AWrongImmediateIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kWrongImmediate},
                            {"a receive completes as", "a receive of nothing"}),
            kSeeds / 4);
}

TEST(NegativeControlTest, AnEventThatDoesNotComeIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kLoseEvent},
                            {"did not say so", "was not told", "has no last WQE event"}),
            kSeeds / 10);
}

TEST(NegativeControlTest, AByteWrittenWhereARegionWasIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.sabotage = Sabotage::kWriteToOldMemory}, {"beside a region"}),
            kSeeds / 10);
}

// On a wire that doubles frames by itself a second copy would be right.
TEST(NegativeControlTest, AnUnreliableMessageThatComesTwiceIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.tampering = Tampering::kRepeatUnreliable},
                            {"was not to come any more", "that nobody sent"}),
            kSeeds / 10);
}

TEST(NegativeControlTest, ADatagramWithAWrongQkeyThatIsDeliveredIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.tampering = Tampering::kRightQkey},
                            {"that nobody sent", "with a wrong Q_Key"}),
            0u);
}

TEST(NegativeControlTest, AWrongByteInTheHeaderOfADatagramIsNoticed) {
  EXPECT_GT(SeedsThatNotice({.tampering = Tampering::kHopLimit}, {"that nobody sent"}), 0u);
}

TEST(NegativeControlTest, DatagramsThatVanishUncountedAreNoticed) {
  EXPECT_GT(SeedsThatNotice({.tampering = Tampering::kLoseDatagrams},
                            {"are missing", "with a wrong Q_Key"}),
            0u);
}

}  // namespace
}  // namespace uroce::transport::simulation
