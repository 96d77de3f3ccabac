// Behaviour under loss changes only on purpose: the goodput table must equal the committed one.

#include "tests/simulation/goodput.h"

#include <gtest/gtest.h>

#include "tests/simulation/golden_table.h"

namespace uroce::transport::simulation {
namespace {

TEST(GoodputTest, TheTableIsTheCommittedOne) { ExpectGoldenTable("goodput", GoodputTable()); }

}  // namespace
}  // namespace uroce::transport::simulation
