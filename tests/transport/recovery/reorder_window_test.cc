#include "transport/recovery/reorder_window.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

// A NAK was sent at once for a packet that came `late_by` after the packets behind it.
void Report(ReorderWindow& window, Duration late_by) {
  window.OnNak(Psn(7), Time{100});
  window.OnFilled(Psn(7), Time{100} + late_by);
}

TEST(ReorderWindowTest, LossesAreReportedAtOnce) {
  ReorderWindow window;
  EXPECT_EQ(window.wait(), Duration{});
  for (int i = 0; i < 100; ++i) Report(window, Milliseconds(1));
  EXPECT_EQ(window.wait(), Duration{});
}

TEST(ReorderWindowTest, PacketThatComesTwiceWasOnlyLate) {
  ReorderWindow window;
  Report(window, Microseconds(200));
  window.OnDuplicate(Psn(8));
  EXPECT_EQ(window.wait(), Duration{});
  window.OnDuplicate(Psn(7));
  EXPECT_EQ(window.wait(), Microseconds(250));
}

TEST(ReorderWindowTest, DuplicateOfAPacketThatIsStillMissingSaysNothing) {
  ReorderWindow window;
  window.OnNak(Psn(7), Time{100});
  window.OnDuplicate(Psn(7));
  EXPECT_EQ(window.wait(), Duration{});
}

TEST(ReorderWindowTest, LongestLatenessCounts) {
  ReorderWindow window;
  for (const int us : {200, 400, 100}) {
    Report(window, Microseconds(us));
    window.OnDuplicate(Psn(7));
  }
  EXPECT_EQ(window.wait(), Microseconds(500));
}

TEST(ReorderWindowTest, WaitIsBounded) {
  ReorderWindow window;
  Report(window, Milliseconds(5'000));
  window.OnDuplicate(Psn(7));
  EXPECT_EQ(window.wait(), ReorderWindow::kLongest);
}

TEST(ReorderWindowTest, NaksThatWereRightMakeTheWaitShorter) {
  ReorderWindow window;
  Report(window, Microseconds(800));
  window.OnDuplicate(Psn(7));
  ASSERT_EQ(window.wait(), Milliseconds(1));
  for (uint32_t i = 1; i < ReorderWindow::kMemory; ++i) Report(window, Milliseconds(2));
  EXPECT_EQ(window.wait(), Milliseconds(1));
  Report(window, Milliseconds(2));
  EXPECT_EQ(window.wait(), Microseconds(500));
}

}  // namespace
}  // namespace uroce::transport
