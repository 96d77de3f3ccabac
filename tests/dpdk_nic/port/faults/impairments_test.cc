#include "dpdk_nic/port/faults/impairments.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

TEST(ImpairmentsTest, PercentagesMayHaveFractionsAndExponents) {
  const auto impairments = ParseImpairments("drop=0.5%,duplicate=.25%,corrupt=1e-2%,delay=1.5us");
  ASSERT_TRUE(impairments.ok());
  EXPECT_DOUBLE_EQ(impairments.value().drop, 0.005);
  EXPECT_DOUBLE_EQ(impairments.value().duplicate, 0.0025);
  EXPECT_DOUBLE_EQ(impairments.value().corrupt, 0.0001);
  EXPECT_EQ(impairments.value().delay.ns, 1'500);
}

TEST(ImpairmentsTest, InvalidNumberIsRefused) {
  for (const char* spec : {"drop=%", "drop= 1%", "drop=1 %", "drop=1x%", "drop=nan%", "drop=inf%",
                           "drop=-1%", "drop=1", "delay=1e9us", "seed=-1", "seed=1.5"}) {
    EXPECT_FALSE(ParseImpairments(spec).ok()) << spec;
  }
}

}  // namespace
}  // namespace uroce::nic
