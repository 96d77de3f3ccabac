// Seeds of the simulation of communication managers: CM_SIMULATION_SEEDS of them, from
// CM_SIMULATION_FIRST on. The defaults are those of the gate.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/transport/cm/simulation/world.h"

namespace uroce::transport::cm {
namespace {

uint64_t Number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(CmSimulationTest, BothSidesAgreeAndNothingIsLeft) {
  const uint64_t first = Number("CM_SIMULATION_FIRST", 1);
  const uint64_t count = Number("CM_SIMULATION_SEEDS", 300);
  uint64_t established = 0;
  uint64_t stale = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    World world(seed);
    const std::string failure = world.Run();
    ASSERT_EQ(failure, "") << "seed " << seed << ": CM_SIMULATION_FIRST=" << seed
                           << " CM_SIMULATION_SEEDS=1";
    established += world.established();
    stale += world.stale();
  }
  // The seeds reach established and stale connections.
  if (count >= 300) {
    EXPECT_GT(established, count / 2);
    EXPECT_GT(stale, 0u);
  }
}

// How many of the first seeds the oracle objects to.
int Objections(World::Sabotage sabotage) {
  int objections = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    World world(seed);
    world.set_sabotage(sabotage);
    const std::string failure = world.Run();
    objections += failure.empty() ? 0 : 1;
    if (sabotage == World::Sabotage::kNone) {
      EXPECT_EQ(failure, "") << seed;
    }
  }
  return objections;
}

TEST(CmSimulationTest, OracleNoticesFaults) {
  EXPECT_EQ(Objections(World::Sabotage::kNone), 0);
  EXPECT_GT(Objections(World::Sabotage::kLosesRtu), 0);
  EXPECT_GT(Objections(World::Sabotage::kChangesQpn), 0);
  EXPECT_GT(Objections(World::Sabotage::kForgetsDestroy), 0);
}

}  // namespace
}  // namespace uroce::transport::cm
