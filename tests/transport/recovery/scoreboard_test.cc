#include "transport/recovery/scoreboard.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace uroce::transport {
namespace {

constexpr Duration kRoundTrip = Milliseconds(1);
constexpr Duration kWait{kRoundTrip.ns / Scoreboard::kPartOfRoundTrip};
constexpr Psn kOldest{0xff'fff0};  // the numbers wrap behind the 16th packet

class ScoreboardTest : public testing::Test {
 protected:
  ScoreboardTest() { board_.Restart(kOldest); }

  static Psn Packet(uint32_t number) { return kOldest + number; }
  // Also overtakes all before it, as responses and executed requests do.
  bool Arrive(uint32_t number) {
    board_.Overtake(now_, kOldest, Packet(number));
    return board_.OnArrived(now_, Packet(number), kRoundTrip);
  }
  uint32_t Acknowledge(uint32_t end) {
    return board_.OnAcknowledged(now_, Packet(end), kRoundTrip);
  }
  // The lost packets, by number.
  std::vector<uint32_t> Lost() {
    board_.FindLosses(now_, kRoundTrip);
    std::vector<uint32_t> lost;
    for (uint32_t i = 0; i < Scoreboard::kPackets; ++i) {
      if (board_.CountLostFrom(Packet(i), 1) != 0) lost.push_back(i);
    }
    return lost;
  }
  void SendAgain(uint32_t number, uint32_t next, uint32_t packets = 1, bool is_response = false) {
    board_.OnSentAgain(now_, Packet(number), packets, Packet(next), is_response);
  }

  Scoreboard board_;
  Time now_{1'000'000'000};
};

using Numbers = std::vector<uint32_t>;

TEST_F(ScoreboardTest, NothingIsKnownAtFirst) {
  EXPECT_FALSE(board_.is_open());
  EXPECT_EQ(Lost(), Numbers());
  EXPECT_EQ(board_.next_loss(), kNever);
  EXPECT_EQ(Acknowledge(20), 20u);
  EXPECT_FALSE(board_.is_open());
}

TEST_F(ScoreboardTest, OvertakenPacketIsLostAfterAWhile) {
  EXPECT_TRUE(Arrive(2));
  EXPECT_TRUE(board_.is_open());
  EXPECT_EQ(board_.arrived(), 1u);
  EXPECT_EQ(Lost(), Numbers());
  EXPECT_EQ(board_.next_loss(), now_ + kWait);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({0, 1}));
  EXPECT_EQ(board_.lost(), 2u);
  EXPECT_EQ(board_.first_lost(), Packet(0));
  EXPECT_EQ(board_.CountLostFrom(Packet(0), 8), 2u);
  EXPECT_EQ(board_.CountLostFrom(Packet(0), 1), 1u);
  EXPECT_EQ(board_.next_loss(), kNever);
}

TEST_F(ScoreboardTest, PacketArrivesOnce) {
  EXPECT_TRUE(Arrive(5));
  EXPECT_FALSE(Arrive(5));
  EXPECT_TRUE(board_.HasArrived(Packet(5)));
  EXPECT_FALSE(board_.HasArrived(Packet(4)));
  EXPECT_FALSE(board_.HasArrived(Packet(6)));
}

TEST_F(ScoreboardTest, PacketThatNothingOvertookIsNotLost) {
  EXPECT_TRUE(board_.OnArrived(now_, Packet(3), kRoundTrip));
  now_ = now_ + kRoundTrip * 10;
  EXPECT_EQ(Lost(), Numbers());
  board_.Overtake(now_, Packet(1), Packet(2));
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers({1}));
}

TEST_F(ScoreboardTest, AcknowledgedPacketsThatWereKnownCountOnce) {
  Arrive(1);
  Arrive(3);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers({0, 2}));
  EXPECT_EQ(Acknowledge(3), 2u);
  EXPECT_EQ(board_.arrived(), 1u);
  EXPECT_EQ(board_.lost(), 0u);
  EXPECT_EQ(Acknowledge(30), 26u);
  EXPECT_FALSE(board_.is_open());
}

TEST_F(ScoreboardTest, WhatIsSentAgainIsLostOnlyWhenOvertakenOnceMore) {
  Arrive(2);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({0, 1}));
  SendAgain(0, 10);
  SendAgain(1, 10);
  EXPECT_TRUE(board_.WasSentAgain(Packet(0), now_));
  EXPECT_FALSE(board_.WasSentAgain(Packet(0), now_ + Duration{1}));
  // Packets that left before show nothing.
  now_ = now_ + kRoundTrip * 2;
  for (uint32_t i = 3; i < 10; ++i) board_.OnArrived(now_, Packet(i), kRoundTrip);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers());
  board_.OnArrived(now_, Packet(10), kRoundTrip);
  EXPECT_EQ(Lost(), Numbers());
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({0, 1}));
}

TEST_F(ScoreboardTest, RequestThatWasSentAgainOvertakesWhatLeftBeforeIt) {
  board_.MarkLost(Packet(0), Packet(1));
  SendAgain(0, 10);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Acknowledge(1), 1u);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(ScoreboardTest, ResponseThatWasAskedForAgainShowsNothingOfThoseBehindIt) {
  board_.MarkLost(Packet(0), Packet(1));
  SendAgain(0, 10, 1, /*is_response=*/true);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Acknowledge(1), 1u);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers());
  EXPECT_FALSE(board_.is_open());
}

TEST_F(ScoreboardTest, ItWaitsLongerWherePacketsCameLate) {
  Arrive(1);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers({0}));
  Arrive(0);  // a round trip late
  Arrive(3);
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers());
  now_ = now_ + kRoundTrip;
  EXPECT_EQ(Lost(), Numbers({2}));
}

TEST_F(ScoreboardTest, ItWaitsLongerWhenAPacketWasSentAgainInVain) {
  Arrive(1);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({0}));
  SendAgain(0, 2);
  now_ = now_ + (kRoundTrip - Duration{1});
  Arrive(0);  // sooner than a round trip
  Arrive(3);
  now_ = now_ + kRoundTrip + kWait;
  EXPECT_EQ(Lost(), Numbers());
}

TEST_F(ScoreboardTest, ItDoesNotWaitLongerForWhatWasLostIndeed) {
  Arrive(1);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({0}));
  SendAgain(0, 2);
  now_ = now_ + kRoundTrip;
  Arrive(0);
  Arrive(3);
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({2}));
}

TEST_F(ScoreboardTest, PeersSilenceIsNoLateness) {
  board_.MarkLost(Packet(0), Packet(1));
  now_ = now_ + Milliseconds(9);
  EXPECT_EQ(Acknowledge(1), 1u);
  board_.Overtake(now_, Packet(1), Packet(2));
  now_ = now_ + kWait;
  EXPECT_EQ(Lost(), Numbers({1}));
}

TEST_F(ScoreboardTest, PeerAsksForAllThatHasNotArrived) {
  Arrive(2);
  EXPECT_EQ(board_.MarkLost(Packet(0), Packet(5)), 4u);
  EXPECT_EQ(board_.MarkLost(Packet(0), Packet(5)), 0u);
  EXPECT_EQ(Lost(), Numbers({0, 1, 3, 4}));
}

TEST_F(ScoreboardTest, ArrivalThatIsForgottenCanBeLost) {
  Arrive(0);
  Arrive(1);
  board_.ForgetArrival(Packet(0));
  board_.ForgetArrival(Packet(3));
  EXPECT_EQ(board_.arrived(), 1u);
  EXPECT_FALSE(board_.HasArrived(Packet(0)));
  EXPECT_EQ(Lost(), Numbers());
  EXPECT_EQ(board_.MarkLost(Packet(0), Packet(1)), 1u);
  EXPECT_TRUE(Arrive(0));
  EXPECT_EQ(Acknowledge(2), 0u);
}

TEST_F(ScoreboardTest, NothingIsKnownOfPacketsTooFarAhead) {
  EXPECT_FALSE(Arrive(Scoreboard::kPackets));
  EXPECT_EQ(board_.arrived(), 0u);
  EXPECT_EQ(board_.MarkLost(Packet(0), Packet(Scoreboard::kPackets + 7)), Scoreboard::kPackets);
  EXPECT_TRUE(board_.CountLostFrom(Packet(0), UINT32_MAX) == Scoreboard::kPackets);
}

TEST_F(ScoreboardTest, SettledPacketsAreForgottenWhenAcknowledged) {
  Arrive(1);
  board_.Settle(Packet(1));
  EXPECT_TRUE(board_.IsSettled(Packet(1)));
  EXPECT_FALSE(board_.IsSettled(Packet(0)));
  Acknowledge(2);
  board_.Restart(Packet(2) + (Scoreboard::kPackets - 2));
  EXPECT_FALSE(board_.IsSettled(Packet(1) + Scoreboard::kPackets));
}

// Random events on the board and on a plain model of what has arrived and is lost.
TEST(ScoreboardModelTest, CountsAreThoseOfAPlainModel) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&random](uint32_t end) { return static_cast<uint32_t>(random() % end); };
    Scoreboard board;
    uint32_t oldest = 0xff'ff00 + below(512);
    uint32_t next = oldest;
    board.Restart(Psn(oldest));
    enum class Fate { kUnknown, kArrived };
    std::map<uint32_t, Fate> fates;
    Time now{1};
    for (int step = 0; step < 500; ++step) {
      now = now + Microseconds(below(400));
      next = std::min(next + below(40), oldest + Scoreboard::kPackets);
      if (next == oldest) continue;
      const uint32_t number = oldest + below(next - oldest);
      switch (below(5)) {
        case 0:
        case 1: {
          board.Overtake(now, Psn(oldest), Psn(number));
          const bool is_new = board.OnArrived(now, Psn(number), kRoundTrip);
          EXPECT_EQ(is_new, fates[number] != Fate::kArrived);
          fates[number] = Fate::kArrived;
          break;
        }
        case 2: {
          uint32_t unknown = 0;
          for (; oldest != number; ++oldest) {
            unknown += fates[oldest] != Fate::kArrived;
            fates.erase(oldest);
          }
          EXPECT_EQ(board.OnAcknowledged(now, Psn(oldest), kRoundTrip), unknown);
          break;
        }
        case 3:
          board.MarkLost(Psn(number), Psn(std::min(number + below(4), next)));
          break;
        default:
          board.FindLosses(now, kRoundTrip);
          if (board.lost() == 0) break;
          const Psn first = board.first_lost();
          const uint32_t run = board.CountLostFrom(first, 1 + below(8));
          ASSERT_NE(run, 0u);
          for (uint32_t i = 0; i < run; ++i) EXPECT_FALSE(board.HasArrived(first + i));
          board.OnSentAgain(now, first, run, Psn(next), below(2) == 0);
      }
      uint32_t arrived = 0;
      uint32_t lost = 0;
      for (uint32_t i = oldest; i != next; ++i) {
        arrived += fates.contains(i) && fates[i] == Fate::kArrived;
        lost += board.CountLostFrom(Psn(i), 1);
      }
      ASSERT_EQ(board.arrived(), arrived) << "seed " << seed << " step " << step;
      ASSERT_EQ(board.lost(), lost) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace uroce::transport
