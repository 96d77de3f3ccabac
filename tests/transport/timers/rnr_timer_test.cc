// The receiver-not-ready wait in virtual time: rnr_retry resends, 7 = for ever.

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

// Written by hand on purpose, from the enumeration ib_rnr_timeout of verbs: IB_RNR_TIMER_655_36 = 0
// ... IB_RNR_TIMER_491_52 = 31, in units of 10 us.
constexpr std::array<int64_t, 32> kTensOfMicroseconds = {
    65'536, 1,     2,     3,     4,     6,      8,      12,     16,     24,    32,
    48,     64,    96,    128,   192,   256,    384,    512,    768,    1'024, 1'536,
    2'048,  3'072, 4'096, 6'144, 8'192, 12'288, 16'384, 24'576, 32'768, 49'152};

Duration Wait(int code) {
  return Microseconds(kTensOfMicroseconds[static_cast<size_t>(code)] * 10);
}

class RnrTimerTest : public testing::TestWithParam<std::tuple<int, int>> {};

// IBA 9.7.5.2.8.
TEST_P(RnrTimerTest, TheWaitIsExactAndTheCountIsKept) {
  const auto [code, rnr_retry] = GetParam();
  // The ACK timeout is far longer, so that only the RNR wait shows.
  Script script({.timeout = 31, .rnr_retry = static_cast<uint8_t>(rnr_retry)});
  const Psn psn = script.first_psn();
  const PacketSpec request = Send(Position::kOnly, psn).With(std::vector<uint8_t>(10));
  script.PostSend(1, 0, 10);
  script.ExpectSent(request);

  const bool for_ever = rnr_retry == 7;
  const int waits = for_ever ? 20 : rnr_retry;
  for (int i = 0; i < waits; ++i) {
    script.Inject(RnrNak(psn, static_cast<uint8_t>(code)));
    script.ExpectNothingSent();
    script.Advance(Wait(code) - Duration{1});
    script.ExpectNothingSent();
    script.Advance(Duration{1});
    script.ExpectSent(request);
  }
  script.ExpectNoCompletion();
  if (for_ever) {
    script.Inject(Ack(psn));
    script.ExpectCompletion(1);
    return;
  }
  script.Inject(RnrNak(psn, static_cast<uint8_t>(code)));
  const auto completion = script.ExpectCompletion(1, CompletionStatus::kRnrRetryExceeded);
  EXPECT_EQ(completion.vendor_error, VendorError::kRnrRetries);
  script.ExpectState(QpState::kError);
  script.ExpectNothingSent();
  EXPECT_EQ(script.counters().rnr_naks_received, static_cast<uint64_t>(rnr_retry) + 1);
}

INSTANTIATE_TEST_SUITE_P(EveryTimerCodeAndRetryCount, RnrTimerTest,
                         testing::Combine(testing::Range(0, 32), testing::Range(0, 8)));

TEST(RnrTimerTest, ProgressGivesTheRetriesBack) {
  Script script({.rnr_retry = 1});
  const Psn first = script.first_psn();
  for (uint64_t i = 0; i < 5; ++i) script.PostSend(i, 0, 10);
  script.TakeSent();
  for (uint32_t i = 0; i < 5; ++i) {
    script.Inject(RnrNak(first + i, 1));
    script.Advance(Wait(1));
    EXPECT_EQ(script.TakeSent().size(), 5 - i);
    script.Inject(Ack(first + i));
    script.ExpectCompletion(i);
  }
}

// IBA 9.7.5.2.8: an RNR NAK acknowledges all earlier packets.
TEST(RnrTimerTest, RnrNakAcknowledgesEarlierRequests) {
  Script script;
  const Psn first = script.first_psn();
  for (uint64_t i = 0; i < 3; ++i) script.PostSend(i, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first + 2, 1));
  script.ExpectCompletion(0);
  script.ExpectCompletion(1);
  script.Advance(Wait(1));
  script.ExpectSent(Send(Position::kOnly, first + 2).With(std::vector<uint8_t>(10)));
}

TEST(RnrTimerTest, NothingNewIsSentDuringTheWait) {
  Script script;
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 14));
  script.PostSend(2, 0, 10);
  script.PostWrite(3, 0, 10);
  script.ExpectNothingSent();
  script.Advance(Wait(14));
  EXPECT_EQ(script.TakeSent().size(), 3u);
}

// A late response without news must neither shorten the wait nor make it endless.
TEST(RnrTimerTest, ALateNakForAGapDoesNotChangeTheWait) {
  Script script({.timeout = 8});
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.PostSend(2, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 20));  // 10.24 ms; the ACK timeout is 1 ms
  script.Advance(Microseconds(50));
  script.Inject(Nak(first, NakCode::kPsnSequenceError));
  script.ExpectNothingSent();
  script.Advance(Wait(20) - Microseconds(50) - Duration{1});
  script.ExpectNothingSent();
  script.Advance(Duration{1});
  EXPECT_EQ(script.TakeSent().size(), 2u);
}

TEST(RnrTimerTest, ALateNakDoesNotMakeTheWaitEndlessWithoutAckTimeout) {
  Script script({.timeout = 0});
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 1));
  script.Inject(Nak(first, NakCode::kPsnSequenceError));
  script.Advance(Wait(1));
  EXPECT_EQ(script.TakeSent().size(), 1u);
}

TEST(RnrTimerTest, ADoubledRnrNakCountsOnce) {
  Script script({.rnr_retry = 1});
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 5));
  script.Inject(RnrNak(first, 5));  // the same packet, doubled by the network
  script.ExpectNoCompletion();
  script.Advance(Wait(5));
  EXPECT_EQ(script.TakeSent().size(), 1u);
  script.Inject(Ack(first));
  script.ExpectCompletion(1);
}

// On a wire; a peer on a link ends the wait by it (unready_receiver_test.cc).
TEST(RnrTimerTest, AnAckOfNothingNewDoesNotEndTheWait) {
  Script script;
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 20));
  script.Inject(Ack(first - 1));
  script.ExpectNothingSent();
  script.Advance(Wait(20) - Duration{1});
  script.ExpectNothingSent();
  script.Advance(Duration{1});
  EXPECT_EQ(script.TakeSent().size(), 1u);
}

// The receiver was ready after all: an ACK ends the wait.
TEST(RnrTimerTest, AnAckEndsTheWait) {
  Script script;
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.PostSend(2, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(first, 20));
  script.Inject(Ack(first));
  script.ExpectCompletion(1);
  script.ExpectSent(Send(Position::kOnly, first + 1).With(std::vector<uint8_t>(10)));
}

TEST(RnrTimerTest, TheAckTimeoutStartsWithTheResend) {
  Script script({.timeout = 8, .retry_count = 0});
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(RnrNak(script.first_psn(), 30));  // far longer than the ACK timeout
  script.Advance(Wait(30));
  EXPECT_EQ(script.TakeSent().size(), 1u);
  script.Advance(Duration{(int64_t{4'096} << 8) - 1});
  script.ExpectNoCompletion();
  script.Advance(Duration{1});
  script.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
