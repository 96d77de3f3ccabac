#include "dpdk_nic/control/rate_limited_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::nic::control {
namespace {

using transport::Milliseconds;
using transport::Time;

class RateLimitedLogTest : public testing::Test {
 protected:
  void Write(int lines) {
    for (int i = 0; i < lines; ++i) log_.Write(now_, "line");
  }

  std::vector<std::string> written_;
  RateLimitedLog log_{[this](std::string_view line) { written_.emplace_back(line); }};
  Time now_{7};
};

TEST_F(RateLimitedLogTest, LinesOfASecondAreCounted) {
  Write(21);
  EXPECT_EQ(written_, std::vector<std::string>(20, "line"));
  now_ = now_ + Milliseconds(999);
  Write(1);
  EXPECT_EQ(written_.size(), 20u);
}

TEST_F(RateLimitedLogTest, NextSecondBeginsWithWhatWasLeftOut) {
  Write(25);
  written_.clear();
  now_ = now_ + Milliseconds(1'000);
  Write(22);
  ASSERT_EQ(written_.size(), 21u);
  EXPECT_EQ(written_[0], "5 lines were left out here");
  EXPECT_EQ(written_[20], "line");
  now_ = now_ + Milliseconds(1'000);
  Write(1);
  EXPECT_EQ(written_[21], "2 lines were left out here");
}

TEST_F(RateLimitedLogTest, NothingIsSaidOfNothing) {
  Write(20);
  now_ = now_ + Milliseconds(1'000);
  Write(1);
  EXPECT_EQ(written_, std::vector<std::string>(21, "line"));
}

}  // namespace
}  // namespace uroce::nic::control
