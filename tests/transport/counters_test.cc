#include "transport/counters.h"

#include <gtest/gtest.h>

#include <set>

namespace uroce::transport {
namespace {

TEST(CountersTest, EveryDropReasonHasItsOwnNameAndCounter) {
  std::set<std::string_view> names;
  Counters counters;
  for (size_t i = 0; i < counters.dropped.size(); ++i) {
    const auto reason = static_cast<DropReason>(i);
    EXPECT_NE("unknown", Name(reason)) << i;
    EXPECT_TRUE(names.insert(Name(reason)).second) << Name(reason);
    counters.drops(reason) += i;
    EXPECT_EQ(i, counters.dropped[i]);
  }
  EXPECT_EQ("unknown", Name(DropReason::kCount));
}

}  // namespace
}  // namespace uroce::transport
