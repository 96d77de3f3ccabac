// How each state handles posted work requests, for every service (IBA C10-96, C10-97.2.1), and what
// happens to waiting requests when the state changes.

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/states.h"

namespace uroce::transport::packet_scripts {
namespace {

enum class Fate { kRefused, kHeld, kSent, kFlushed };

Fate FateOfSend(QpState state) {
  switch (state) {
    case QpState::kReset:
    case QpState::kInit:
    case QpState::kReadyToReceive:
      return Fate::kRefused;
    case QpState::kReadyToSend:
      return Fate::kSent;
    case QpState::kSendQueueDrain:
      return Fate::kHeld;
    default:
      return Fate::kFlushed;
  }
}

Fate FateOfReceive(QpState state) {
  switch (state) {
    case QpState::kReset:
      return Fate::kRefused;
    case QpState::kError:
      return Fate::kFlushed;
    default:
      return Fate::kHeld;
  }
}

class StatePostTest : public testing::TestWithParam<ServiceState> {
 protected:
  QpType type() const { return GetParam().first; }
  QpState state() const { return GetParam().second; }
  Status PostSend(uint64_t wr_id, bool signaled) {
    SendWorkRequest request;
    request.wr_id = wr_id;
    request.signaled = signaled;
    return script_.Post(request, 0, 10);
  }
  Status PostReceive(uint64_t wr_id) { return script_.qp().PostReceive({wr_id, {}}); }

  Script script_{{.type = GetParam().first, .state = GetParam().second}};
};

// IBA C10-96.
TEST_P(StatePostTest, Sends) {
  const Fate fate = FateOfSend(state());
  for (const bool signaled : {false, true}) {
    EXPECT_EQ(PostSend(7, signaled),
              fate == Fate::kRefused ? Status::kInvalidArgument : Status::kOk);
    // A flushed request completes, signaled or not (IBA 10.7.3.1).
    if (fate == Fate::kFlushed) script_.ExpectCompletion(7, CompletionStatus::kFlushed);
    EXPECT_EQ(script_.TakeSent().size(), fate == Fate::kSent ? 1u : 0u);
    const bool done = type() != QpType::kReliableConnection && fate == Fate::kSent && signaled;
    if (done) script_.ExpectCompletion(7);
    script_.ExpectNoCompletion();
  }
  script_.ExpectState(state());
  if (fate == Fate::kSent) return;
  // The list of requests of ibv_wr_complete has the same fate.
  const SendWorkRequest requests[2] = {};
  EXPECT_EQ(script_.qp().PostSends(std::span(requests, 0)),
            fate == Fate::kRefused ? Status::kInvalidArgument : Status::kOk);
}

// IBA C10-97.2.1.
TEST_P(StatePostTest, Receives) {
  const Fate fate = FateOfReceive(state());
  for (uint64_t wr_id = 1; wr_id < 4; ++wr_id) {
    EXPECT_EQ(PostReceive(wr_id), fate == Fate::kRefused ? Status::kInvalidArgument : Status::kOk);
    if (fate == Fate::kFlushed) script_.ExpectCompletion(wr_id, CompletionStatus::kFlushed);
    script_.ExpectNoCompletion();
  }
  script_.ExpectState(state());
  if (fate != Fate::kHeld) return;

  // IBA 10.3.1.7: requests that are held are flushed once, in their order.
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  for (uint64_t wr_id = 1; wr_id < 4; ++wr_id) {
    EXPECT_EQ(script_.ExpectCompletion(wr_id, CompletionStatus::kFlushed).vendor_error,
              VendorError::kFlushedByUser);
  }
  script_.ExpectNoCompletion();
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk) << "ERR -> ERR";
  script_.ExpectNoCompletion();
}

// Both queues, from every state in which requests can wait in them.
// IBA 10.3.1.7.
TEST_P(StatePostTest, ErrFlushesBothQueuesOnceInOrder) {
  script_.HoldTransmit();
  const bool sends = FateOfSend(state()) == Fate::kHeld || FateOfSend(state()) == Fate::kSent;
  const bool receives = FateOfReceive(state()) == Fate::kHeld;
  for (uint64_t i = 0; i < 3; ++i) {
    if (sends) {
      EXPECT_EQ(PostSend(10 + i, i == 1), Status::kOk);
    }
    if (receives) {
      EXPECT_EQ(PostReceive(20 + i), Status::kOk);
    }
  }
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  for (uint64_t i = 0; i < 3 && sends; ++i) {
    script_.ExpectCompletion(10 + i, CompletionStatus::kFlushed);
  }
  for (uint64_t i = 0; i < 3 && receives; ++i) {
    script_.ExpectCompletion(20 + i, CompletionStatus::kFlushed);
  }
  script_.ReleaseTransmit();
  script_.ExpectNothingSent();
  script_.ExpectNoCompletion();
  script_.ExpectNoDeadline();
  script_.ExpectState(QpState::kError);
}

// IBA 10.3.1.1: RESET drops both queues without completions.
TEST_P(StatePostTest, ResetForgetsBothQueues) {
  script_.HoldTransmit();
  if (FateOfSend(state()) == Fate::kHeld || FateOfSend(state()) == Fate::kSent) {
    EXPECT_EQ(PostSend(1, true), Status::kOk);
  }
  if (FateOfReceive(state()) == Fate::kHeld) {
    EXPECT_EQ(PostReceive(2), Status::kOk);
  }
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.ReleaseTransmit();
  script_.ExpectNothingSent();
  script_.ExpectNoCompletion();
  script_.ExpectNoDeadline();
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectNoCompletion();
}

INSTANTIATE_TEST_SUITE_P(EveryState, StatePostTest, testing::ValuesIn(EveryState()),
                         NameOfState<testing::TestParamInfo<ServiceState>>);

// Which operations a service has (IBA 11.4.1.1; the manual page of ibv_post_send). NICs and
// rdma_rxe take the others, and complete them in error.
TEST(OfferedOperationsTest, OperationsNotOfferedCompleteInError) {
  using Op = SendOpcode;
  const auto offers = [](QpType type, Op opcode) {
    switch (opcode) {
      case Op::kSend:
      case Op::kSendWithImmediate:
        return true;
      case Op::kRdmaWrite:
      case Op::kRdmaWriteWithImmediate:
      case Op::kLocalInvalidate:
      case Op::kBindWindow:
        return type != QpType::kUnreliableDatagram;
      default:  // READ, atomics, SEND with invalidate
        return type == QpType::kReliableConnection;
    }
  };
  for (const QpType type : kServices) {
    for (int opcode = 0; opcode <= 9; ++opcode) {
      SCOPED_TRACE(testing::Message()
                   << "service " << static_cast<int>(type) << " opcode " << opcode);
      Script script({.type = type});
      script.HoldTransmit();
      SendWorkRequest request;
      request.wr_id = 7;
      request.opcode = static_cast<Op>(opcode);
      EXPECT_EQ(script.Post(request, 0, 8), Status::kOk);
      if (offers(type, request.opcode)) {
        EXPECT_EQ(script.MoveTo(QpState::kReset), Status::kOk);
        script.ReleaseTransmit();
        continue;
      }
      script.ReleaseTransmit();
      EXPECT_EQ(script.ExpectCompletion(7, CompletionStatus::kLocalQpOperationError).vendor_error,
                VendorError::kImpossibleRequest);
      script.ExpectState(QpState::kSendQueueError);
    }
    Script script({.type = type});
    SendWorkRequest request;
    request.opcode = static_cast<Op>(10);
    EXPECT_EQ(script.Post(request, 0, 8), Status::kInvalidArgument);
  }
}

// The queues hold as many requests as were granted, no more.
TEST(QueueDepthTest, OneMoreThanTheDepthIsNoMemory) {
  for (const QpType type : kServices) {
    Script script({.type = type, .queue_depth = 4});
    script.HoldTransmit();
    for (uint64_t i = 0; i < 4; ++i) {
      script.PostSend(i, 0, 1);
      script.PostReceive(10 + i, 0, 64);
    }
    EXPECT_EQ(script.Post({}, 0, 1), Status::kNoMemory);
    EXPECT_EQ(script.qp().PostReceive({}), Status::kNoMemory);
    EXPECT_EQ(script.MoveTo(QpState::kError), Status::kOk);
    EXPECT_EQ(script.TakeCompletions().size(), 8u);
    script.ReleaseTransmit();
  }
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
