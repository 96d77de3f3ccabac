// The model of a path: rounds of measurements go in, window and pace come out.

#include "transport/congestion/rate_model.h"

#include <gtest/gtest.h>

#include "transport/limits.h"

namespace uroce::transport {
namespace {

constexpr Duration kRoundTrip = Milliseconds(10);
constexpr uint64_t kRate = 10'000;                // packets per second
constexpr uint32_t kProduct = 100;                // packets that fill the path
constexpr int64_t kPace = 1'000'000'000 / kRate;  // ns a packet

constexpr uint32_t kFew = 2;  // lost packets

class RateModelTest : public testing::Test {
 protected:
  // A round trip passes, in which packets were delivered at this rate.
  void Round(uint64_t rate, Duration round_trip, uint32_t in_flight = kProduct,
             bool is_limited = false) {
    now_ = now_ + round_trip;
    DeliverySample sample;
    sample.packets_per_second = rate;
    sample.round_trip = round_trip;
    sample.is_limited = is_limited;
    sample.ends_round = true;
    model_.OnAcknowledged({.now = now_, .packets = 1, .in_flight = in_flight, .sample = sample});
  }
  void Rounds(int count, uint64_t rate, Duration round_trip) {
    for (int i = 0; i < count; ++i) Round(rate, round_trip);
  }
  void ReachFullRate() {
    for (uint64_t rate = 1'000; rate < kRate; rate *= 2) Round(rate, kRoundTrip);
    Rounds(12, kRate, kRoundTrip);
  }
  // Of a whole cycle.
  struct Paces {
    int64_t fastest = INT64_MAX;
    int64_t slowest = 0;
  };
  Paces PacesOfACycle() {
    Paces paces;
    for (int i = 0; i < 40; ++i) {
      Round(kRate, kRoundTrip);
      const int64_t pace = model_.limits().ns_a_packet;
      paces.fastest = std::min(paces.fastest, pace);
      paces.slowest = std::max(paces.slowest, pace);
    }
    return paces;
  }

  RateModel model_{1};
  Time now_{};
};

TEST_F(RateModelTest, BeginsWithAFewPackets) {
  EXPECT_EQ(model_.limits().window, 16u);
  EXPECT_EQ(model_.limits().ns_a_packet, 0);
}

TEST_F(RateModelTest, AShortPathWithoutAQueueIsNotLimited) {
  Rounds(50, 1'000'000, Microseconds(100));
  EXPECT_EQ(model_.limits().window, kMaxPacketsInFlight);
  EXPECT_EQ(model_.limits().ns_a_packet, 0);
  // A random loss shows no queue.
  model_.OnLoss(now_, kFew, 100);
  Rounds(5, 1'000'000, Microseconds(100));
  EXPECT_EQ(model_.limits().window, kMaxPacketsInFlight);
}

TEST_F(RateModelTest, AShortPathWhoseQueueOverflowsIsLimited) {
  Rounds(5, 100'000, Microseconds(100));
  Rounds(5, 100'000, Microseconds(400));
  model_.OnLoss(now_, 30, 100);
  Rounds(5, 100'000, Microseconds(100));
  EXPECT_GT(model_.limits().ns_a_packet, 0);
  EXPECT_LT(model_.limits().window, kMaxPacketsInFlight);
}

TEST_F(RateModelTest, StartsByDoublingTheRate) {
  Round(1'000, kRoundTrip);
  EXPECT_LT(model_.limits().ns_a_packet, 1'000'000 / 2);
  Round(2'000, kRoundTrip);
  EXPECT_LT(model_.limits().ns_a_packet, 500'000 / 2);
  EXPECT_GT(model_.limits().window, 2 * 20u);
}

TEST_F(RateModelTest, AFewLossesDoNotSlowTheStart) {
  for (uint64_t rate = 1'000; rate < kRate; rate *= 2) {
    Round(rate, kRoundTrip);
    model_.OnLoss(now_, kFew, kProduct);
    EXPECT_LT(model_.limits().ns_a_packet, 1'000'000'000 / static_cast<int64_t>(rate) / 2);
  }
}

TEST_F(RateModelTest, ManyLossesDo) {
  Round(1'000, kRoundTrip);
  Round(2'000, kRoundTrip);
  model_.OnLoss(now_, kFew, 20);
  model_.OnLoss(now_, kFew, 20);
  EXPECT_GT(model_.limits().ns_a_packet, 500'000 / 2);
}

TEST_F(RateModelTest, SendsAtTheRateOnceThatGrowsNoMore) {
  ReachFullRate();
  const Paces paces = PacesOfACycle();
  EXPECT_EQ(paces.fastest, kPace * 100 / 125);
  EXPECT_NEAR(static_cast<double>(paces.slowest), static_cast<double>(kPace), 0.34 * kPace);
  EXPECT_GE(model_.limits().window, 2 * kProduct);
  EXPECT_LE(model_.limits().window, 3 * kProduct);
}

TEST_F(RateModelTest, RandomLossesAreNotCongestion) {
  ReachFullRate();
  const uint32_t window = model_.limits().window;
  for (int i = 0; i < 100; ++i) {
    Round(i % 10 == 0 ? kRate : kRate / 2, kRoundTrip);
    model_.OnLoss(now_, kFew, kProduct);
  }
  const Paces paces = PacesOfACycle();
  EXPECT_LE(paces.slowest, kPace * 100 / 75 + 1);
  EXPECT_GE(model_.limits().window, window * 9 / 10);
}

TEST_F(RateModelTest, LossesWithAFullQueueBoundTheWindow) {
  ReachFullRate();
  const uint32_t window = model_.limits().window;
  Round(kRate, kRoundTrip * 2);
  model_.OnLoss(now_, kFew, 2 * kProduct);
  EXPECT_EQ(model_.limits().window, 2 * kProduct * 7 / 10);
  // The same event once more.
  model_.OnLoss(now_, kFew, 2 * kProduct);
  EXPECT_EQ(model_.limits().window, 2 * kProduct * 7 / 10);
  // The bound grows by a packet a round trip.
  Round(kRate, kRoundTrip);
  EXPECT_EQ(model_.limits().window, 2 * kProduct * 7 / 10 + 1);
  EXPECT_LT(model_.limits().window, window);
}

// The peer was stopped for a while.
TEST_F(RateModelTest, AStallDoesNotCollapseTheRate) {
  ReachFullRate();
  Round(kRate / 50, Milliseconds(500));
  Round(kRate, kRoundTrip);
  EXPECT_LE(model_.limits().ns_a_packet, kPace * 100 / 75 + 1);
}

TEST_F(RateModelTest, FollowsAPathThatHasBecomeSlower) {
  ReachFullRate();
  Rounds(20, kRate / 4, kRoundTrip);
  EXPECT_GE(model_.limits().ns_a_packet, 4 * kPace * 100 / 125);
}

TEST_F(RateModelTest, FollowsAPathThatHasBecomeFaster) {
  ReachFullRate();
  Rounds(2, 2 * kRate, kRoundTrip);
  EXPECT_LE(model_.limits().ns_a_packet, kPace / 2 * 100 / 75 + 1);
}

// The program sent too little to tell.
TEST_F(RateModelTest, LimitedSamplesDoNotLowerTheRate) {
  ReachFullRate();
  for (int i = 0; i < 100; ++i) Round(kRate / 10, kRoundTrip, 5, /*is_limited=*/true);
  EXPECT_LE(model_.limits().ns_a_packet, kPace * 100 / 75 + 1);
}

// A peer that waits for a processor acknowledges at once what came meanwhile. As much more may be
// in flight, for two periods.
TEST_F(RateModelTest, MakesRoomForBunchesOfAcknowledgements) {
  ReachFullRate();
  const uint32_t window = model_.limits().window;
  const auto acknowledge = [&](uint32_t packets) {
    now_ = now_ + Microseconds(100);
    model_.OnAcknowledged({.now = now_, .packets = packets, .in_flight = kProduct, .sample = {}});
  };
  acknowledge(1);
  EXPECT_EQ(model_.limits().window, window);
  acknowledge(35);
  EXPECT_NEAR(model_.limits().window, window + 35 - 5, 2);
  acknowledge(500);  // 4 ms at most
  EXPECT_NEAR(model_.limits().window, window + 40 - 5, 2);
  Rounds(12, kRate, kRoundTrip);
  EXPECT_EQ(model_.limits().window, window);
}

TEST_F(RateModelTest, ARepairedLossIsNoBunch) {
  ReachFullRate();
  const uint32_t window = model_.limits().window;
  model_.OnLoss(now_, kFew, kProduct);
  model_.OnAcknowledged({.now = now_, .packets = 80, .in_flight = kProduct, .sample = {}});
  EXPECT_EQ(model_.limits().window, window);
}

TEST_F(RateModelTest, MeasuresAnOldShortestRoundTripAnew) {
  ReachFullRate();
  uint32_t least_window = UINT32_MAX;
  for (int i = 0; i < 300; ++i) {  // 3.3 s
    Round(kRate, kRoundTrip + Milliseconds(1));
    least_window = std::min(least_window, model_.limits().window);
  }
  EXPECT_EQ(least_window, kProduct / 2);
  EXPECT_GE(model_.limits().window, 2 * kProduct);
}

// Others keep the queue full, also while this connection sends nearly nothing. Its share of the
// path would vanish if it left the queue to them.
TEST_F(RateModelTest, CompetesWithThoseThatFillTheQueue) {
  ReachFullRate();
  Rounds(60, kRate / 10, kRoundTrip * 5);
  EXPECT_GE(model_.limits().window, 2 * kProduct / 10 * 5);
  EXPECT_LT(model_.limits().ns_a_packet, 10 * kPace);
  // They have gone.
  Rounds(600, kRate, kRoundTrip);
  EXPECT_LE(model_.limits().window, 3 * kProduct);
}

TEST_F(RateModelTest, NeverStopsAltogether) {
  Rounds(3, 1, Milliseconds(100));
  for (int i = 0; i < 50; ++i) {
    model_.OnLoss(now_, 1, 1);
    Round(1, Milliseconds(100), 1);
  }
  EXPECT_GE(model_.limits().window, 2u);
  EXPECT_LE(model_.limits().ns_a_packet, 50'000'000);
}

TEST_F(RateModelTest, RestartForgetsThePath) {
  ReachFullRate();
  model_.Restart();
  EXPECT_EQ(model_.limits().window, 16u);
  EXPECT_EQ(model_.limits().ns_a_packet, 0);
}

}  // namespace
}  // namespace uroce::transport
