// Every field of the completion of every operation, on both sides, as far as ibv_wc defines it
// (IBA 11.4.2.1; the manual page of ibv_poll_cq).

#include <gtest/gtest.h>

#include "tests/packet_scripts/script.h"
#include "tests/packet_scripts/windows.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint64_t kWrId = 0xfedc'ba98'7654'3210;

void ExpectSame(const Completion& actual, const Completion& expected) {
  EXPECT_EQ(actual.wr_id, expected.wr_id);
  EXPECT_EQ(actual.status, expected.status);
  EXPECT_EQ(actual.opcode, expected.opcode);
  EXPECT_EQ(actual.flags, expected.flags);
  EXPECT_EQ(actual.vendor_error, expected.vendor_error);
  EXPECT_EQ(actual.byte_length, expected.byte_length);
  EXPECT_EQ(actual.immediate_or_rkey, expected.immediate_or_rkey);
  EXPECT_EQ(actual.qpn, expected.qpn);
  EXPECT_EQ(actual.source_qpn, expected.source_qpn);
}

struct SendCase {
  const char* name;
  SendOpcode opcode;
  CompletionOpcode completes_as;
  uint32_t length;
};

class SendCompletionTest : public testing::TestWithParam<SendCase> {
 protected:
  SendWorkRequest Request(Script& script) {
    switch (GetParam().opcode) {
      case SendOpcode::kBindWindow:
        return BindRequest(script, kWrId, Window(script), 0, 64);
      case SendOpcode::kLocalInvalidate: {
        const RKey key = Window(script);
        EXPECT_EQ(script.Post(BindRequest(script, 1, key, 0, 64), 0, 0), Status::kOk);
        script.ExpectCompletion(1);
        return InvalidateRequest(kWrId, NextKey(key));
      }
      default:
        SendWorkRequest request;
        request.wr_id = kWrId;
        request.opcode = GetParam().opcode;
        request.signaled = true;
        request.placement = Placement::kGlobal;
        return request;
    }
  }
  static RKey Window(Script& script) {
    return *script.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType2);
  }
  // The peer's response.
  PacketSpec Answer(const Script& script) const {
    switch (GetParam().opcode) {
      case SendOpcode::kRdmaRead:
        return ReadResponse(Position::kOnly, script.first_psn()).With(Pattern(GetParam().length));
      case SendOpcode::kCompareAndSwap:
      case SendOpcode::kFetchAndAdd:
        return AtomicAck(script.first_psn(), 7);
      case SendOpcode::kFlush:
      case SendOpcode::kAtomicWrite:
        return ReadResponse(Position::kOnly, script.first_psn());
      default:
        return Ack(script.first_psn());
    }
  }
};

TEST_P(SendCompletionTest, Success) {
  Script script;
  EXPECT_EQ(script.Post(Request(script), 0, GetParam().length), Status::kOk);
  if (script.TakeSent().size() == 1) {
    script.ExpectNoCompletion();
    script.Inject(Answer(script));
  }
  Completion expected;
  expected.wr_id = kWrId;
  expected.opcode = GetParam().completes_as;
  expected.byte_length = GetParam().length;
  expected.qpn = script.qp().qpn();
  ExpectSame(script.ExpectCompletion(kWrId), expected);
}

// Without the signal bit there is no completion, unless the queue pair signals all (IBA 10.7.3.1).
TEST_P(SendCompletionTest, OnlyIfSignaled) {
  for (const bool signal_all : {false, true}) {
    Script script({.signal_all = signal_all});
    SendWorkRequest request = Request(script);
    request.signaled = false;
    EXPECT_EQ(script.Post(request, 0, GetParam().length), Status::kOk);
    if (script.TakeSent().size() == 1) script.Inject(Answer(script));
    if (signal_all) script.ExpectCompletion(kWrId);
    script.ExpectNoCompletion();
  }
}

TEST_P(SendCompletionTest, Flushed) {
  Script script;
  const SendWorkRequest request = Request(script);
  script.HoldTransmit();
  EXPECT_EQ(script.Post(request, 0, GetParam().length), Status::kOk);
  EXPECT_EQ(script.MoveTo(QpState::kError), Status::kOk);
  const Completion completion = script.ExpectCompletion(kWrId, CompletionStatus::kFlushed);
  EXPECT_EQ(completion.vendor_error, VendorError::kFlushedByUser);
  EXPECT_EQ(completion.qpn, script.qp().qpn());
}

INSTANTIATE_TEST_SUITE_P(
    EveryOperation, SendCompletionTest,
    testing::Values(
        SendCase{"Write", SendOpcode::kRdmaWrite, CompletionOpcode::kRdmaWrite, 100},
        SendCase{"WriteImmediate", SendOpcode::kRdmaWriteWithImmediate,
                 CompletionOpcode::kRdmaWrite, 100},
        SendCase{"Send", SendOpcode::kSend, CompletionOpcode::kSend, 100},
        SendCase{"SendImmediate", SendOpcode::kSendWithImmediate, CompletionOpcode::kSend, 100},
        SendCase{"SendInvalidate", SendOpcode::kSendWithInvalidate, CompletionOpcode::kSend, 100},
        SendCase{"Read", SendOpcode::kRdmaRead, CompletionOpcode::kRdmaRead, 100},
        SendCase{"CompareSwap", SendOpcode::kCompareAndSwap, CompletionOpcode::kCompareAndSwap, 8},
        SendCase{"FetchAdd", SendOpcode::kFetchAndAdd, CompletionOpcode::kFetchAndAdd, 8},
        SendCase{"Flush", SendOpcode::kFlush, CompletionOpcode::kFlush, 0},
        SendCase{"AtomicWrite", SendOpcode::kAtomicWrite, CompletionOpcode::kAtomicWrite, 8},
        SendCase{"Bind", SendOpcode::kBindWindow, CompletionOpcode::kBindWindow, 0},
        SendCase{"Invalidate", SendOpcode::kLocalInvalidate, CompletionOpcode::kLocalInvalidate,
                 0}),
    [](const auto& operation) { return std::string(operation.param.name); });

class ReceiveCompletionTest : public testing::Test {
 protected:
  ReceiveCompletionTest() {
    script_.PostReceive(kWrId, 4'096, 1'024);
    expected_.wr_id = kWrId;
    expected_.opcode = CompletionOpcode::kReceive;
    expected_.qpn = script_.qp().qpn();
    expected_.source_qpn = Script::kPeerQpn;
  }
  void ExpectReceived(CompletionStatus status = CompletionStatus::kSuccess) {
    expected_.status = status;
    script_.TakeSent();
    ExpectSame(script_.ExpectCompletion(kWrId, status), expected_);
  }

  Script script_;
  const Psn first_ = script_.peers_first_psn();
  Completion expected_;
};

TEST_F(ReceiveCompletionTest, Send) {
  script_.Inject(Send(Position::kFirst, first_).With(Pattern(256)));
  script_.Inject(Send(Position::kLast, first_ + 1).With("end"));
  expected_.byte_length = 259;
  ExpectReceived();
}

TEST_F(ReceiveCompletionTest, SendWithImmediate) {
  script_.Inject(Send(Position::kOnly, first_).With("x").Immediate(0xa1b2'c3d4));
  expected_.byte_length = 1;
  expected_.flags = Completion::kHasImmediate;
  expected_.immediate_or_rkey = 0xa1b2'c3d4;
  ExpectReceived();
}

TEST_F(ReceiveCompletionTest, SendWithInvalidate) {
  const RKey window = *script_.endpoint().memory().AllocateWindow(Script::kPd, WindowType::kType2);
  EXPECT_EQ(script_.Post(BindRequest(script_, 1, window, 0, 64), 0, 0), Status::kOk);
  script_.ExpectCompletion(1);
  script_.Inject(Send(Position::kOnly, first_).With("x").Invalidate(NextKey(window)));
  expected_.byte_length = 1;
  expected_.flags = Completion::kHasInvalidate;
  expected_.immediate_or_rkey = NextKey(window).value;
  ExpectReceived();
}

// byte_length is the length of the WRITE, though it did not go to the receive request's memory.
TEST_F(ReceiveCompletionTest, WriteWithImmediate) {
  script_.Inject(
      Write(Position::kFirst, first_, Script::Address(0), script_.rkey(), 300).With(Pattern(256)));
  script_.Inject(Write(Position::kLast, first_ + 1).With(Pattern(44)).Immediate(9));
  expected_.opcode = CompletionOpcode::kReceiveRdmaWithImmediate;
  expected_.byte_length = 300;
  expected_.flags = Completion::kHasImmediate;
  expected_.immediate_or_rkey = 9;
  ExpectReceived();
}

TEST_F(ReceiveCompletionTest, Flushed) {
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  expected_.vendor_error = VendorError::kFlushedByUser;
  ExpectReceived(CompletionStatus::kFlushed);
}

TEST_F(ReceiveCompletionTest, TooLong) {
  script_.PostReceive(2, 4'096, 1'024);
  for (uint32_t i = 0; i < 5; ++i) {
    script_.Inject(
        Send(i == 0 ? Position::kFirst : Position::kMiddle, first_ + i).With(Pattern(256)));
  }
  expected_.vendor_error = VendorError::kReceiveTooSmall;
  ExpectReceived(CompletionStatus::kLocalLengthError);
  EXPECT_EQ(script_.ExpectCompletion(2, CompletionStatus::kFlushed).vendor_error,
            VendorError::kFlushedByError);
}

// The vendor error of each requester failure names its cause; the tests of NAKs and of timeouts
// check theirs.
TEST(SendFailureTest, ReadsAndAtomicsNeedAQueuePairThatMayHaveThem) {
  for (const SendOpcode opcode : {SendOpcode::kRdmaRead, SendOpcode::kFetchAndAdd,
                                  SendOpcode::kFlush, SendOpcode::kAtomicWrite}) {
    Script script({.max_read_atomic = 0});
    SendWorkRequest request;
    request.wr_id = 1;
    request.opcode = opcode;
    request.placement = Placement::kGlobal;
    EXPECT_EQ(script.Post(request, 0, 8), Status::kOk);
    EXPECT_EQ(script.ExpectCompletion(1, CompletionStatus::kLocalQpOperationError).vendor_error,
              VendorError::kNoReadCredits);
    script.ExpectState(QpState::kError);
    script.ExpectNothingSent();
  }
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
