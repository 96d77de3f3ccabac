// The local ACK timeout in virtual time: 4.096 us * 2^timeout, retry_cnt resends.

#include <gtest/gtest.h>

#include <tuple>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr Duration Timeout(int code) { return {int64_t{4'096} << code}; }

class AckTimeoutTest : public testing::TestWithParam<std::tuple<int, int>> {};

// IBA C9-140, 9.9.2.4.1.
TEST_P(AckTimeoutTest, SilenceIsRetriedAtExactTimesAndThenEndsTheConnection) {
  const auto [timeout, retry_count] = GetParam();
  Script script(
      {.timeout = static_cast<uint8_t>(timeout), .retry_count = static_cast<uint8_t>(retry_count)});
  const PacketSpec request = Send(Position::kOnly, script.first_psn()).With(Pattern(100));
  std::copy_n(request.payload.begin(), 100, script.memory());
  script.PostSend(1, 0, 100);
  script.ExpectSent(request);

  for (int resend = 1; resend <= retry_count; ++resend) {
    script.Advance(Timeout(timeout) - Duration{1});
    script.ExpectNothingSent();
    script.Advance(Duration{1});
    script.ExpectSent(request);
    script.ExpectNothingSent();
  }
  script.Advance(Timeout(timeout) - Duration{1});
  script.ExpectNoCompletion();
  script.Advance(Duration{1});
  const auto completion = script.ExpectCompletion(1, CompletionStatus::kRetryExceeded);
  EXPECT_EQ(completion.vendor_error, VendorError::kAckTimeout);
  script.ExpectState(QpState::kError);
  script.ExpectNoDeadline();
  EXPECT_EQ(script.counters().ack_timeouts, static_cast<uint64_t>(retry_count) + 1);
  EXPECT_EQ(script.counters().retransmitted_packets, static_cast<uint64_t>(retry_count));
  EXPECT_EQ(script.counters().retries_exceeded, 1u);
}

INSTANTIATE_TEST_SUITE_P(EveryTimeoutAndRetryCount, AckTimeoutTest,
                         testing::Combine(testing::Range(1, 32), testing::Range(0, 8)));

// IBA C9-140.
TEST(AckTimeoutTest, TimeoutZeroWaitsForEver) {
  for (uint8_t retry_count = 0; retry_count < 8; ++retry_count) {
    Script script({.timeout = 0, .retry_count = retry_count});
    script.PostSend(1, 0, 10);
    script.TakeSent();
    script.ExpectNoDeadline();
    script.Advance(Milliseconds(int64_t{1'000} * 3'600 * 24 * 365));
    script.ExpectNothingSent();
    script.ExpectNoCompletion();
    script.ExpectState(QpState::kReadyToSend);
  }
}

// A `timeout` changed in SQD applies to the waiting request from the change on.
TEST(AckTimeoutTest, NewTimeoutReachesTheRequestThatWaits) {
  constexpr int kNewCode = 10;
  for (const int old_code : {0, 8, 20}) {
    Script script({.timeout = static_cast<uint8_t>(old_code)});
    script.PostSend(1, 0, 10);
    const auto sent = script.TakeSent();
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_EQ(script.MoveTo(QpState::kSendQueueDrain), Status::kOk);
    script.Advance(Timeout(7));
    QpAttributes attributes;
    attributes.timeout = kNewCode;
    EXPECT_EQ(script.qp().Modify(attributes, QpAttributeMask::kTimeout), Status::kOk);
    script.Advance(Timeout(kNewCode) - Duration{1});
    script.ExpectNothingSent();
    script.Advance(Duration{1});
    script.ExpectSent(sent[0]);
    EXPECT_EQ(script.counters().ack_timeouts, 1u);
    script.Inject(Ack(script.first_psn()));
    script.ExpectCompletion(1);
    script.ExpectNoDeadline();
  }
}

TEST(AckTimeoutTest, TimeoutThatBecomesZeroStopsTheTimer) {
  Script script({.timeout = 10});
  script.PostSend(1, 0, 10);
  script.TakeSent();
  EXPECT_EQ(script.MoveTo(QpState::kSendQueueDrain), Status::kOk);
  EXPECT_EQ(script.qp().Modify({}, QpAttributeMask::kTimeout), Status::kOk);
  script.Advance(Timeout(20));
  script.ExpectNothingSent();
  script.ExpectNoDeadline();
}

// An RNR wait is no wait for a response: it ends at the time that the receiver named.
TEST(AckTimeoutTest, NewTimeoutLeavesAnRnrWaitAlone) {
  Script script;
  script.PostSend(1, 0, 10);
  const auto sent = script.TakeSent();
  EXPECT_EQ(script.MoveTo(QpState::kSendQueueDrain), Status::kOk);
  script.Inject(RnrNak(script.first_psn(), 12));  // 0.64 ms
  QpAttributes attributes;
  attributes.timeout = 20;
  EXPECT_EQ(script.qp().Modify(attributes, QpAttributeMask::kTimeout), Status::kOk);
  script.Advance(Microseconds(640) - Duration{1});
  script.ExpectNothingSent();
  script.Advance(Duration{1});
  script.ExpectSent(sent[0]);
}

// IBA C9-139.
TEST(AckTimeoutTest, NoRequestNoTimer) {
  Script script;
  script.ExpectNoDeadline();
  script.PostSend(1, 0, 10);
  script.TakeSent();
  script.Inject(Ack(script.first_psn()));
  script.ExpectCompletion(1);
  script.Advance(Timeout(14) * 20);
  script.ExpectNothingSent();
}

// Any progress restarts the count (IBA 9.9.2.4.1), and the time too.
// IBA o9-85.
TEST(AckTimeoutTest, ProgressStartsTimeAndCountAfresh) {
  constexpr int kRetries = 2;
  Script script({.timeout = 8, .retry_count = kRetries});
  const Psn first = script.first_psn();
  for (uint64_t i = 0; i < 4; ++i) script.PostSend(i, 0, 10);
  script.TakeSent();
  for (uint32_t i = 0; i < 4; ++i) {
    for (int resend = 0; resend < kRetries; ++resend) {
      script.Advance(Timeout(8));
      EXPECT_EQ(script.TakeSent().size(), 1u);
    }
    script.Advance(Timeout(8) - Duration{1});
    script.Inject(Ack(first + i));
    script.ExpectCompletion(i);
    script.TakeSent();  // the next ones follow the answer
    script.Advance(Timeout(8) - Duration{1});
    EXPECT_TRUE(script.TakeSent().empty()) << "the time starts again with the ACK";
    if (i == 3) break;
    script.Advance(Duration{1});
    EXPECT_EQ(script.TakeSent().size(), 1u);
    // That was one retry of this round; an ACK without progress does not give it back.
    script.Inject(Ack(first + i));
    script.Inject(Ack(first + i + 1));
    script.ExpectCompletion(++i);
    script.TakeSent();
  }
}

TEST(AckTimeoutTest, AStaleAckIsNotProgress) {
  Script script({.timeout = 8, .retry_count = 1});
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 10);
  script.PostSend(2, 0, 10);
  script.TakeSent();
  script.Inject(Ack(first));
  script.ExpectCompletion(1);

  const Time sent = script.now();
  for (int i = 0; i < 4; ++i) {  // a stale ACK every quarter of the timeout
    script.Advance(Timeout(6));
    script.Inject(Ack(first));
  }
  EXPECT_EQ((script.now() - sent).ns, Timeout(8).ns);
  script.ExpectSent(Send(Position::kOnly, first + 1).With(std::vector<uint8_t>(10)));
  script.Advance(Timeout(8));
  script.ExpectCompletion(2, CompletionStatus::kRetryExceeded);
}

// IBA o9-85.
TEST(AckTimeoutTest, EveryPartOfAReadResponseIsProgress) {
  Script script({.timeout = 8, .retry_count = 1});
  const Psn first = script.first_psn();
  script.PostRead(1, 0, 4 * 256);
  script.TakeSent();
  for (uint32_t i = 0; i < 4; ++i) {
    script.Advance(Timeout(8));
    script.ExpectSent(
        Read(first + i, Script::kPeerAddress + i * 256, Script::kPeerRkey, (4 - i) * 256));
    script.Advance(Timeout(8) - Duration{1});
    // Each is the first response to the READ that asks for the rest.
    script.Inject(ReadResponse(i == 3 ? Position::kOnly : Position::kFirst, first + i)
                      .With(Pattern(256, static_cast<uint8_t>(i))));
  }
  script.ExpectCompletion(1);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(script.Bytes(i * 256, 256), Pattern(256, static_cast<uint8_t>(i)));
  }
}

// On a timeout the requester sends everything unacknowledged again, once, in order.
// The oldest packet goes alone, and what its answer does not cover follows.
TEST(AckTimeoutTest, ATimeoutSendsTheOldestUnacknowledgedPacketAgain) {
  Script script({.timeout = 8});
  const Psn first = script.first_psn();
  script.PostSend(1, 0, 600);   // three packets
  script.PostWrite(2, 0, 256);  // one
  script.PostRead(3, 0, 100);   // one
  const auto sent = script.TakeSent();
  ASSERT_EQ(sent.size(), 5u);
  script.Inject(Ack(first));  // the first packet of the SEND
  script.Advance(Timeout(8));
  const auto again = script.TakeSent();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].psn, first + 1);
  EXPECT_TRUE(again[0].ack_request);
  script.Inject(Ack(first + 1));
  EXPECT_EQ(script.TakeSent().size(), 2u);
  script.Inject(Ack(first + 3));
  script.ExpectCompletion(1);
  script.ExpectCompletion(2);
  script.ExpectSent(sent[4]);
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
