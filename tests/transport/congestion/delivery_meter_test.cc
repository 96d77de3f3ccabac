// The meter measures a path when packets are acknowledged.

#include "transport/congestion/delivery_meter.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

constexpr Psn kFirst{0xff'fff0};  // wraps
constexpr Time kStart{1'000'000};

Time After(int64_t us) { return kStart + Microseconds(us); }

class DeliveryMeterTest : public testing::Test {
 protected:
  void Send(int64_t us, uint32_t packet, bool is_limited = false, bool is_repeated = false) {
    meter_.OnSent(After(us), kFirst + packet, /*spacing=*/0, is_limited, is_repeated);
  }
  // All packets before `end` are acknowledged, `packets` of them for the first time.
  std::optional<DeliverySample> Acknowledge(int64_t us, uint32_t end, uint32_t packets) {
    return meter_.OnAcknowledged(After(us), kFirst + end, packets);
  }

  DeliveryMeter meter_;
};

TEST_F(DeliveryMeterTest, MeasuresRoundTripAndRate) {
  for (uint32_t i = 0; i < 10; ++i) Send(i * 10, i);
  EXPECT_EQ(Acknowledge(500, 1, 1)->round_trip, Microseconds(500));
  const auto sample = Acknowledge(590, 10, 9);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->round_trip, Microseconds(500));
  // Ten packets since the first one was sent, at 0 us.
  EXPECT_EQ(sample->packets_per_second, 10u * 1'000'000 / 590);
  EXPECT_FALSE(sample->is_limited);
}

// In a steady flow the rate is that at which packets arrive, whatever the round trip is.
TEST_F(DeliveryMeterTest, RateOfASteadyFlow) {
  std::optional<DeliverySample> sample;
  for (uint32_t i = 0; i < 200; ++i) {
    Send(i * 10, i);
    if (i >= 50) sample = Acknowledge(i * 10 + 5, i - 49, 1);
  }
  ASSERT_TRUE(sample);
  EXPECT_NEAR(static_cast<double>(sample->packets_per_second), 100'000, 2'500);
}

// Acknowledgements in a bunch do not make a path faster than packets were sent.
TEST_F(DeliveryMeterTest, BunchedAcknowledgementsTellNoHigherRate) {
  for (uint32_t i = 0; i < 100; ++i) Send(i * 10, i);
  Acknowledge(2'000, 10, 10);
  const auto sample = Acknowledge(2'001, 100, 90);
  EXPECT_LE(sample->packets_per_second, 110'000u);
}

TEST_F(DeliveryMeterTest, NothingIsMeasuredWithoutARecord) { EXPECT_FALSE(Acknowledge(10, 5, 5)); }

TEST_F(DeliveryMeterTest, APacketThatWasSentTwiceTellsNoRoundTrip) {
  Send(0, 0);
  meter_.OnProbe();
  EXPECT_FALSE(Acknowledge(900, 1, 1));
  Send(1'000, 1, false, /*is_repeated=*/true);
  EXPECT_FALSE(Acknowledge(1'500, 2, 1)->round_trip);
}

// The response to the first transmission of a packet comes right after the second.
TEST_F(DeliveryMeterTest, AnEarlyResponseTellsNoRate) {
  Send(0, 0);
  Acknowledge(500, 1, 1);
  Send(600, 1, false, /*is_repeated=*/true);
  EXPECT_EQ(Acknowledge(610, 40, 39)->packets_per_second, 0u);
}

// After packets are sent again the path is empty. Its rate is that of the burst, and it is no
// measurement of our share of the path.
TEST_F(DeliveryMeterTest, ABurstAfterALossIsMeasuredFromItsFirstPacket) {
  Send(0, 0);
  Acknowledge(500, 1, 1);
  meter_.GoBack();
  for (uint32_t i = 1; i <= 50; ++i) Send(600 + i * 10, i, false, /*is_repeated=*/true);
  EXPECT_EQ(Acknowledge(1'110, 2, 1)->packets_per_second, 0u) << "too short";
  const auto sample = Acknowledge(1'510, 42, 40);
  EXPECT_EQ(sample->packets_per_second, 100'000u);
  EXPECT_TRUE(sample->is_burst);
}

TEST_F(DeliveryMeterTest, OneSampleARoundTripEndsTheRound) {
  uint32_t rounds = 0;
  for (uint32_t i = 0; i < 500; ++i) {
    Send(i * 10, i);
    if (i < 50) continue;
    rounds += Acknowledge(i * 10 + 5, i - 49, 1)->ends_round;
  }
  EXPECT_GE(rounds, 8u);
  EXPECT_LE(rounds, 10u);
}

TEST_F(DeliveryMeterTest, RecordsAreBoundedAndSpread) {
  for (uint32_t i = 0; i < 4 * DeliveryMeter::kRecords; ++i) {
    meter_.OnSent(After(i), kFirst + i, /*spacing=*/4, false, false);
  }
  EXPECT_FALSE(meter_.OnAcknowledged(After(5'000), kFirst, 0));
  EXPECT_EQ(meter_.OnAcknowledged(After(5'000), kFirst + 4, 4)->round_trip, Microseconds(5'000));
  const auto last = meter_.OnAcknowledged(After(5'000), kFirst + 4 * DeliveryMeter::kRecords, 508);
  EXPECT_EQ(last->round_trip, Microseconds(5'000 - 4 * 127));
}

TEST_F(DeliveryMeterTest, SaysThatTheProgramWasTheLimit) {
  Send(0, 0, /*is_limited=*/true);
  EXPECT_TRUE(Acknowledge(100, 1, 1)->is_limited);
}

}  // namespace
}  // namespace uroce::transport
