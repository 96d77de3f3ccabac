// All 256 syndromes that an AETH can have, as the answer to a SEND (IBA 9.7.5.2.2, 9.7.5.2.8). Bit
// 7 is reserved and ignored.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

enum class Meaning { kAck, kWait, kSendAgain, kFailure, kNothing };

struct Outcome {
  Meaning meaning;
  CompletionStatus status = CompletionStatus::kSuccess;
};

Outcome OutcomeOf(uint8_t syndrome) {
  const int kind = (syndrome >> 5) & 3;
  const int code = syndrome & 31;
  if (kind == 0) return {Meaning::kAck};
  if (kind == 1) return {Meaning::kWait};
  if (kind == 2) return {Meaning::kNothing};
  switch (code) {
    case 0:
      return {Meaning::kSendAgain};
    case 1:
      return {Meaning::kFailure, CompletionStatus::kRemoteInvalidRequest};
    case 2:
      return {Meaning::kFailure, CompletionStatus::kRemoteAccessError};
    case 3:
      return {Meaning::kFailure, CompletionStatus::kRemoteOperationError};
    default:  // 4 is for reliable datagrams, now obsolete; the others are reserved
      return {Meaning::kNothing};
  }
}

class SyndromeTest : public testing::TestWithParam<int> {};

TEST_P(SyndromeTest, OutcomeMatchesTheTables) {
  const auto byte = static_cast<uint8_t>(GetParam());
  // The ACK timeout is longer than any RNR wait.
  Script script({.timeout = 20});
  script.PostSend(1, 0, 10);
  script.PostSend(2, 0, 20);
  const auto requests = script.TakeSent();
  PacketSpec answer = Ack(script.first_psn());
  answer.aeth.syndrome = Syndrome(byte);

  const Outcome outcome = OutcomeOf(byte);
  if (outcome.meaning == Meaning::kNothing) {
    script.ExpectDropped(DropReason::kMalformedResponse, answer);
  } else {
    EXPECT_EQ(script.Inject(answer), DropReason::kNone);
  }
  switch (outcome.meaning) {
    case Meaning::kAck:
      script.ExpectCompletion(1);
      break;
    case Meaning::kWait:
      script.ExpectNothingSent();
      script.Advance(Milliseconds(656));  // the longest wait is 655.36 ms
      [[fallthrough]];
    case Meaning::kSendAgain:
      script.ExpectSent(requests[0]);
      script.ExpectSent(requests[1]);
      break;
    case Meaning::kFailure:
      script.ExpectCompletion(1, outcome.status);
      script.ExpectCompletion(2, CompletionStatus::kFlushed);
      break;
    case Meaning::kNothing:
      break;
  }
  script.ExpectNothingSent();
  script.ExpectNoCompletion();
  script.ExpectState(outcome.meaning == Meaning::kFailure ? QpState::kError
                                                          : QpState::kReadyToSend);
}

INSTANTIATE_TEST_SUITE_P(EverySyndrome, SyndromeTest, testing::Range(0, 256));

}  // namespace
}  // namespace uroce::transport::packet_scripts
