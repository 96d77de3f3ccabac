// How the limits of a congestion control become permits to send.

#include "transport/congestion/flow_control.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace uroce::transport {
namespace {

constexpr Time kStart{1'000'000'000};

class FixedLimits final : public CongestionControl {
 public:
  void Restart() override {}
  void OnAcknowledged(const Acknowledgement& acknowledgement) override {
    is_limited = acknowledgement.sample && acknowledgement.sample->is_limited;
  }
  void OnLoss(Time /*now*/, uint32_t /*packets*/, uint32_t /*in_flight*/) override { ++losses; }
  CongestionLimits limits() const override { return value; }

  CongestionLimits value{.window = 100, .ns_a_packet = 10'000};
  int losses = 0;
  bool is_limited = false;  // the last sample
};

class FlowControlTest : public testing::Test {
 protected:
  FlowControlTest() { flow_.Restart(); }
  // How many packets leave if each timer is so late.
  double SentInASecond(Duration late) {
    Time now = kStart;
    uint64_t sent = 0;
    for (uint32_t packets = 0; now < kStart + Milliseconds(1'000);) {
      packets = flow_.TakePermit(now, packets);
      sent += packets;
      if (packets == 0) now = flow_.next_send() + late;
    }
    return static_cast<double>(sent);
  }

  FixedLimits* limits_ = new FixedLimits;
  FlowControl flow_{std::unique_ptr<CongestionControl>(limits_)};
};

TEST_F(FlowControlTest, PacketsLeaveInShortBurstsAtTheRate) {
  EXPECT_EQ(flow_.window(), 100u);
  EXPECT_EQ(flow_.TakePermit(kStart, 0), 10u);  // 100 us
  EXPECT_EQ(flow_.TakePermit(kStart, 10), 0u);
  EXPECT_EQ(flow_.next_send(), kStart + Microseconds(100));
  EXPECT_EQ(flow_.TakePermit(kStart + Microseconds(100), 0), 10u);
}

TEST_F(FlowControlTest, OverASecondTheRateIsExact) {
  EXPECT_NEAR(SentInASecond(Duration{}), 100'000, 20);
}

// A timer that is late is made up for, up to a millisecond.
TEST_F(FlowControlTest, ALateTimerIsMadeUpFor) {
  flow_.TakePermit(kStart, 0);
  EXPECT_EQ(flow_.TakePermit(kStart, 10), 0u);
  const Time late = flow_.next_send() + Microseconds(300);
  EXPECT_EQ(flow_.TakePermit(late, 0), 40u);
  EXPECT_EQ(flow_.TakePermit(late, 40), 0u);
  EXPECT_EQ(flow_.TakePermit(flow_.next_send() + Milliseconds(900), 0), 64u);
}

// Although each timer is late, the rate is exact.
TEST_F(FlowControlTest, LateTimersDoNotLowerTheRate) {
  EXPECT_NEAR(SentInASecond(Microseconds(150)), 100'000, 40);
}

// The rest of a permit is not saved up while the window is full.
TEST_F(FlowControlTest, AFullWindowSavesNothingUp) {
  flow_.TakePermit(kStart, 0);
  EXPECT_EQ(flow_.TakePermit(kStart, 10), 0u);
  const Time late = flow_.next_send() + Microseconds(300);
  EXPECT_EQ(flow_.TakePermit(late, 0), 40u);
  const Time later = late + Milliseconds(500);
  EXPECT_EQ(flow_.TakePermit(later, 40), 0u);
  EXPECT_EQ(flow_.next_send(), later + Microseconds(100));
}

// A program that was late longer than it can make up for sends less than the path carries.
TEST_F(FlowControlTest, SamplesOfALateProgramAreLimited) {
  Psn psn{100};
  const auto send_and_measure = [&](Duration late) {
    flow_.TakePermit(flow_.next_send(), 0);
    EXPECT_EQ(flow_.TakePermit(flow_.next_send(), 10), 0u);
    const Time now = flow_.next_send() + late;
    flow_.TakePermit(now, 0);
    flow_.OnSent(now, psn, 1, /*is_limited=*/false, /*is_repeated=*/false);
    ++psn;
    flow_.OnAcknowledged(now + Microseconds(50), psn, 1, 0);
    return limits_->is_limited;
  };
  EXPECT_FALSE(send_and_measure(Microseconds(200)));
  EXPECT_TRUE(send_and_measure(Milliseconds(3)));
  EXPECT_FALSE(send_and_measure(Microseconds(200)));
}

// So do acknowledgements that such a program reads late.
TEST_F(FlowControlTest, SamplesThatAreReadLateAreLimited) {
  flow_.TakePermit(kStart, 0);
  flow_.OnSent(kStart, Psn{100}, 1, /*is_limited=*/false, /*is_repeated=*/false);
  EXPECT_EQ(flow_.TakePermit(kStart, 10), 0u);
  flow_.OnAcknowledged(flow_.next_send() + Milliseconds(3), Psn{101}, 1, 0);
  EXPECT_TRUE(limits_->is_limited);
}

// A flow that had nothing to send has saved up nothing.
TEST_F(FlowControlTest, AnIdleFlowSavesNothingUp) {
  flow_.TakePermit(kStart, 0);
  EXPECT_EQ(flow_.TakePermit(kStart + Milliseconds(500), 5), 0u);
}

// A rate that was measured too low at first does not hold packets back for long.
TEST_F(FlowControlTest, WaitingPacketsFollowANewRate) {
  limits_->value.ns_a_packet = 1'000'000;
  flow_.Restart();
  flow_.TakePermit(kStart, 0);
  EXPECT_EQ(flow_.TakePermit(kStart, 20), 0u);
  EXPECT_EQ(flow_.next_send(), kStart + Milliseconds(20));
  limits_->value.ns_a_packet = 10'000;
  flow_.OnAcknowledged(kStart + Milliseconds(10), Psn(5), 1, 3);
  EXPECT_EQ(flow_.next_send(), kStart + Milliseconds(10) + Microseconds(100));
}

TEST_F(FlowControlTest, WithoutARateNothingWaits) {
  limits_->value.ns_a_packet = 0;
  flow_.Restart();
  for (int i = 0; i < 10; ++i) EXPECT_GT(flow_.TakePermit(kStart, 64), 0u);
}

TEST_F(FlowControlTest, BurstsOfThePeerAreShort) {
  EXPECT_EQ(flow_.longest_burst(), 201u);  // 2 ms
  limits_->value.ns_a_packet = 0;
  flow_.Restart();
  EXPECT_EQ(flow_.longest_burst(), 100u);
}

TEST_F(FlowControlTest, LimitsFollowTheControl) {
  limits_->value.window = 7;
  flow_.OnLoss(kStart, 1, 50);
  EXPECT_EQ(limits_->losses, 1);
  EXPECT_EQ(flow_.window(), 7u);
  limits_->value.window = 9;
  flow_.OnAcknowledged(kStart, Psn(5), 1, 3);
  EXPECT_EQ(flow_.window(), 9u);
}

TEST_F(FlowControlTest, ReturnsTheRoundTrip) {
  flow_.OnSent(kStart, Psn(5), 1, false, false);
  EXPECT_EQ(flow_.OnAcknowledged(kStart + Microseconds(30), Psn(6), 1, 0), Microseconds(30));
  // Of several responses the first one tells it.
  flow_.OnSent(kStart, Psn(6), 10, false, false);
  EXPECT_EQ(flow_.OnAcknowledged(kStart + Microseconds(40), Psn(7), 1, 9), Microseconds(40));
  EXPECT_EQ(flow_.OnAcknowledged(kStart + Microseconds(90), Psn(16), 9, 0), std::nullopt);
}

}  // namespace
}  // namespace uroce::transport
