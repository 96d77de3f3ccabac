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
  bool is_stuck_ = false;
  RateLimitedLog log_{[this](std::string_view line) {
    if (!is_stuck_) written_.emplace_back(line);
    return !is_stuck_;
  }};
  Time now_{7};
};

TEST_F(RateLimitedLogTest, LinesOfASecondAreCounted) {
  Write(21);
  EXPECT_EQ(written_, std::vector<std::string>(20, "line"));
  now_ = now_ + Milliseconds(999);
  Write(1);
  EXPECT_EQ(written_.size(), 20u);
}

TEST_F(RateLimitedLogTest, NextSecondBeginsWithTheCountOfDroppedLines) {
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

TEST_F(RateLimitedLogTest, LinesThatFoundNoReaderAreCountedUntilOneReads) {
  is_stuck_ = true;
  Write(3);
  now_ = now_ + Milliseconds(1'000);
  Write(2);
  now_ = now_ + Milliseconds(1'000);
  is_stuck_ = false;
  Write(1);
  EXPECT_EQ(written_, (std::vector<std::string>{"5 lines were left out here", "line"}));
}

TEST_F(RateLimitedLogTest, NothingIsSaidOfNothing) {
  Write(20);
  now_ = now_ + Milliseconds(1'000);
  Write(1);
  EXPECT_EQ(written_, std::vector<std::string>(21, "line"));
}

}  // namespace
}  // namespace uroce::nic::control
