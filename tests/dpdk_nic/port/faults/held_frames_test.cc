#include "dpdk_nic/port/faults/held_frames.h"

#include <gtest/gtest.h>

namespace uroce::nic {
namespace {

using transport::Time;

class HeldFramesTest : public testing::Test {
 protected:
  void Hold(uint8_t name, int64_t due_ns, uint32_t others_to_pass = 0) {
    held_.Hold({transport::Route::kWire, {name}}, Time{due_ns}, others_to_pass);
  }
  // The names of the frames that are due, in the order in which they go on.
  std::string Due(int64_t now_ns) {
    std::string names;
    while (const auto frame = held_.TakeDue(Time{now_ns}))
      names += static_cast<char>(frame->bytes.at(0));
    return names;
  }

  HeldFrames held_;
};

TEST_F(HeldFramesTest, FramesGoOnWhenTheirTimeHasCome) {
  EXPECT_EQ(held_.NextDue(), transport::kNever);
  Hold('a', 200);
  Hold('b', 100);
  EXPECT_EQ(held_.NextDue(), Time{100});
  EXPECT_EQ(Due(99), "");
  EXPECT_EQ(Due(100), "b");
  EXPECT_EQ(Due(200), "a");
  EXPECT_TRUE(held_.empty());
}

TEST_F(HeldFramesTest, HeldFrameIsReleasedWhenEnoughFramesPassed) {
  Hold('a', 1'000, 2);
  held_.Overtaken();
  EXPECT_EQ(Due(0), "");
  held_.Overtaken();
  EXPECT_EQ(Due(0), "a");
}

TEST_F(HeldFramesTest, NothingPassesAFrameThatOnlyWaitsForItsTime) {
  Hold('a', 1'000);
  for (int i = 0; i < 10; ++i) held_.Overtaken();
  EXPECT_EQ(Due(999), "");
  EXPECT_EQ(Due(1'000), "a");
}

TEST_F(HeldFramesTest, AFrameThatCameBeforeDoesNotOvertake) {
  Hold('a', 100);
  Hold('b', 1'000, 1);
  EXPECT_EQ(Due(100), "a");
  EXPECT_EQ(held_.size(), 1u);
  Hold('c', 200);
  EXPECT_EQ(Due(200), "cb");
}

TEST_F(HeldFramesTest, HeldFrameIsReleasedWhenItsTimeEnds) {
  Hold('a', 100, 3);
  EXPECT_EQ(Due(99), "");
  EXPECT_EQ(Due(100), "a");
}

}  // namespace
}  // namespace uroce::nic
