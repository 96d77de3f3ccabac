// An XRC target: each request names its shared receive queue (XRCETH), which provides all that the
// request needs: receive requests, completion queue, protection domain. The rest is as on RC.

#include <gtest/gtest.h>

#include <memory>

#include "tests/packet_scripts/script.h"

namespace uroce::transport::packet_scripts {
namespace {

constexpr uint32_t kPart = 256;
constexpr uint8_t kNoCreditInformation = 31;

class XrcTargetTest : public testing::Test {
 protected:
  // Another queue, with the completion queue of the script.
  std::unique_ptr<SharedReceiveQueue> NewQueue(XrcDomainId domain = Script::kXrcDomain,
                                               PdId pd = Script::kPd) {
    auto queue = script_.endpoint().CreateSharedReceiveQueue({.pd = pd,
                                                              .max_work_requests = 4,
                                                              .max_sges = 1,
                                                              .xrc_domain = domain,
                                                              .completion_queue = &script_.cq(),
                                                              .context = &script_});
    EXPECT_EQ(script_.endpoint().PublishXrcQueue(*queue), Status::kOk);
    return queue;
  }
  void Destroy(std::unique_ptr<SharedReceiveQueue> queue) {
    script_.endpoint().DestroySharedReceiveQueue(std::move(queue));
  }
  void PostTo(SharedReceiveQueue& queue, uint64_t wr_id, uint64_t offset, uint32_t length) {
    const ScatterGatherEntry sge{Script::Address(offset), length, script_.lkey()};
    EXPECT_EQ(queue.Post({wr_id, {&sge, 1}}), Status::kOk);
  }
  void ExpectRefused(Psn psn, EventType event = EventType::kQpAccessError) {
    script_.ExpectSent(Nak(psn, NakCode::kInvalidRequest));
    script_.ExpectEvent(event);
    script_.ExpectState(QpState::kError);
  }

  Script script_{{.type = QpType::kXrcReceive, .queue_depth = 4}};
  const Psn first_ = script_.peers_first_psn();
};

TEST_F(XrcTargetTest, SendTakesARequestOfTheQueueItNames) {
  script_.PostReceive(1, 4'096, 64);
  const auto other = NewQueue();
  PostTo(*other, 2, 8'192, 64);
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, first_).To(other->srqn()).With("other")),
            DropReason::kNone);
  EXPECT_EQ(script_.Inject(Send(Position::kOnly, first_ + 1).With("ours").Immediate(7)),
            DropReason::kNone);
  script_.ExpectSent(Ack(first_).Msn(1).Credits(kNoCreditInformation));
  script_.ExpectSent(Ack(first_ + 1).Msn(2).Credits(kNoCreditInformation));
  const auto completion = script_.ExpectCompletion(2);
  EXPECT_EQ(completion.opcode, CompletionOpcode::kReceive);
  EXPECT_EQ(completion.byte_length, 5u);
  EXPECT_EQ(completion.qpn, script_.qp().qpn()) << "it says which target took it";
  EXPECT_EQ(completion.source_qpn, Script::kPeerQpn);
  EXPECT_EQ(script_.ExpectCompletion(1).immediate_or_rkey, 7u);
  EXPECT_EQ(script_.Bytes(8'192, 5), (std::vector<uint8_t>{'o', 't', 'h', 'e', 'r'}));
}

// Completions go to the completion queue of the shared queue: the target has none.
TEST_F(XrcTargetTest, EachQueueHasACompletionQueueOfItsOwn) {
  auto cq = script_.endpoint().CreateCompletionQueue(4, nullptr);
  auto queue = script_.endpoint().CreateSharedReceiveQueue({.pd = Script::kPd,
                                                            .max_work_requests = 4,
                                                            .max_sges = 1,
                                                            .xrc_domain = Script::kXrcDomain,
                                                            .completion_queue = cq.get()});
  EXPECT_EQ(script_.endpoint().PublishXrcQueue(*queue), Status::kOk);
  PostTo(*queue, 2, 0, 64);
  script_.Inject(Send(Position::kOnly, first_).To(queue->srqn()).With("x"));
  script_.ExpectSent(Ack(first_));
  script_.ExpectNoCompletion();
  Completion completion;
  EXPECT_EQ(cq->Poll({&completion, 1}), 1u);
  EXPECT_EQ(completion.wr_id, 2u);
  Destroy(std::move(queue));
  script_.endpoint().DestroyCompletionQueue(std::move(cq));
}

TEST_F(XrcTargetTest, AMessageOfSeveralPacketsStaysWithItsQueue) {
  const auto other = NewQueue();
  PostTo(*other, 2, 8'192, 1'024);
  const auto bytes = Pattern(kPart);
  script_.Inject(Send(Position::kFirst, first_).To(other->srqn()).With(bytes));
  script_.Inject(Send(Position::kMiddle, first_ + 1).To(other->srqn()).With(bytes));
  script_.Inject(Send(Position::kLast, first_ + 2).To(other->srqn()).With("x"));
  script_.ExpectSent(Ack(first_ + 2).Msn(1));
  EXPECT_EQ(script_.ExpectCompletion(2).byte_length, 2 * kPart + 1);
}

TEST_F(XrcTargetTest, APacketThatNamesAnotherQueueThanItsMessageIsRefused) {
  const auto other = NewQueue();
  script_.PostReceive(1, 4'096, 1'024);
  script_.Inject(Send(Position::kFirst, first_).With(Pattern(kPart)));
  script_.ExpectDropped(DropReason::kUnknownSrq,
                        Send(Position::kLast, first_ + 1).To(other->srqn()).With("x"));
  script_.ExpectSent(Nak(first_ + 1, NakCode::kInvalidRequest));
  script_.ExpectCompletion(1, CompletionStatus::kRemoteInvalidRequest);
  script_.ExpectState(QpState::kError);
}

TEST_F(XrcTargetTest, WritesAndAtomicsAreDoneAsOnRc) {
  script_.PostReceive(1, 4'096, 64);
  script_.SetWord(64, 40);
  EXPECT_EQ(script_.Inject(
                Write(Position::kOnly, first_, Script::Address(0), script_.rkey(), 4).With("data")),
            DropReason::kNone);
  EXPECT_EQ(script_.Inject(Write(Position::kOnly, first_ + 1, Script::Address(8), script_.rkey(), 4)
                               .With("more")
                               .Immediate(9)),
            DropReason::kNone);
  EXPECT_EQ(script_.Inject(FetchAdd(first_ + 2, Script::Address(64), script_.rkey(), 2)),
            DropReason::kNone);
  EXPECT_EQ(script_.Inject(CompareSwap(first_ + 3, Script::Address(64), script_.rkey(), 42, 7)),
            DropReason::kNone);
  script_.ExpectSent(Ack(first_).Msn(1));
  script_.ExpectSent(Ack(first_ + 1).Msn(2));
  script_.ExpectSent(AtomicAck(first_ + 2, 40).Msn(3));
  script_.ExpectSent(AtomicAck(first_ + 3, 42).Msn(4));
  EXPECT_EQ(script_.ExpectCompletion(1).opcode, CompletionOpcode::kReceiveRdmaWithImmediate);
  EXPECT_EQ(script_.Bytes(8, 4), (std::vector<uint8_t>{'m', 'o', 'r', 'e'}));
  EXPECT_EQ(script_.Word(64), 7u);
}

TEST_F(XrcTargetTest, ReadsAreAnsweredInPackets) {
  const auto bytes = Pattern(kPart + 9);
  std::copy(bytes.begin(), bytes.end(), script_.memory());
  script_.Inject(Read(first_, Script::Address(0), script_.rkey(), kPart + 9));
  const auto first = ReadResponse(Position::kFirst, first_);
  script_.ExpectSent(first.With({bytes.begin(), bytes.begin() + kPart}));
  const auto last = ReadResponse(Position::kLast, first_ + 1);
  script_.ExpectSent(last.With({bytes.begin() + kPart, bytes.end()}).Credits(kNoCreditInformation));
}

// The memory that a request accesses belongs to the protection domain of the queue that it names.
TEST_F(XrcTargetTest, TheKeysAreThoseOfTheQueuesProtectionDomain) {
  const auto other = NewQueue(Script::kXrcDomain, PdId{Script::kPd.value + 1});
  const auto write = Write(Position::kOnly, first_, Script::Address(0), script_.rkey(), 1);
  script_.ExpectDropped(DropReason::kRefused, write.To(other->srqn()).With("x"));
  script_.ExpectSent(Nak(first_, NakCode::kRemoteAccessError));
  script_.ExpectEvent(EventType::kQpAccessError);
}

// The responses of a READ use that domain too, even after requests for other queues.
TEST_F(XrcTargetTest, AReadIsAnsweredWithItsOwnDomain) {
  const auto other = NewQueue(Script::kXrcDomain, PdId{Script::kPd.value + 1});
  PostTo(*other, 2, 0, 0);
  script_.HoldTransmit();
  script_.Inject(Read(first_, Script::Address(0), script_.rkey(), 1));
  script_.Inject(Send(Position::kOnly, first_ + 1).To(other->srqn()));
  script_.ReleaseTransmit();
  script_.ExpectSent(ReadResponse(Position::kOnly, first_).With(script_.Bytes(0, 1)));
  script_.ExpectSent(Ack(first_ + 1));
  script_.ExpectCompletion(2);
}

// An unknown queue number, in SENDs and in requests that take no receive request.
TEST_F(XrcTargetTest, ASendToNoQueueIsRefused) {
  const Srqn nobodys{script_.srq().srqn().value + 1};
  script_.ExpectDropped(DropReason::kUnknownSrq, Send(Position::kOnly, first_).To(nobodys));
  ExpectRefused(first_);
}

TEST_F(XrcTargetTest, ANumberBelowAllIsRefused) {
  script_.ExpectDropped(DropReason::kUnknownSrq, Send(Position::kOnly, first_).To(Srqn{1}));
  ExpectRefused(first_);
}

TEST_F(XrcTargetTest, AReadForNoQueueIsRefused) {
  script_.ExpectDropped(DropReason::kUnknownSrq,
                        Read(first_, Script::Address(0), script_.rkey(), 1).To(Srqn{kMaxQpn}));
  ExpectRefused(first_);
}

TEST_F(XrcTargetTest, AQueueOfAnotherDomainIsNotFound) {
  const auto other = NewQueue(XrcDomainId{Script::kXrcDomain.value + 1});
  PostTo(*other, 2, 0, 64);
  script_.ExpectDropped(DropReason::kUnknownSrq,
                        Send(Position::kOnly, first_).To(other->srqn()).With("x"));
  ExpectRefused(first_);
  EXPECT_FALSE(other->empty());
}

TEST_F(XrcTargetTest, AQueueThatWasDestroyedIsNotFound) {
  auto other = NewQueue();
  const Srqn srqn = other->srqn();
  Destroy(std::move(other));
  script_.ExpectDropped(DropReason::kUnknownSrq, Send(Position::kOnly, first_).To(srqn));
  ExpectRefused(first_);
}

// The receive request that the message has taken vanishes with its queue.
TEST_F(XrcTargetTest, AQueueIsDestroyedInTheMiddleOfAMessage) {
  auto other = NewQueue();
  const Srqn srqn = other->srqn();
  PostTo(*other, 2, 8'192, 1'024);
  script_.Inject(Send(Position::kFirst, first_).To(srqn).With(Pattern(kPart)));
  Destroy(std::move(other));
  script_.ExpectDropped(DropReason::kUnknownSrq,
                        Send(Position::kMiddle, first_ + 1).To(srqn).With(Pattern(kPart)));
  ExpectRefused(first_ + 1);
  script_.ExpectNoCompletion();
}

TEST_F(XrcTargetTest, ErrAfterTheQueueOfTheMessageIsGone) {
  auto other = NewQueue();
  PostTo(*other, 2, 8'192, 1'024);
  script_.Inject(Send(Position::kFirst, first_).To(other->srqn()).With(Pattern(kPart)));
  Destroy(std::move(other));
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectNoCompletion();
}

TEST_F(XrcTargetTest, EmptyQueueAnswersRnrNakDespiteRequestsInAnotherQueue) {
  const auto other = NewQueue();
  PostTo(*other, 2, 0, 64);
  script_.ExpectDropped(DropReason::kReceiverNotReady, Send(Position::kOnly, first_).With("x"));
  script_.ExpectSent(RnrNak(first_, 12));
  script_.PostReceive(1, 4'096, 64);
  script_.Inject(Send(Position::kOnly, first_).With("x"));
  script_.Inject(Send(Position::kOnly, first_ + 1).To(other->srqn()).With("y"));
  script_.ExpectSent(Ack(first_));
  script_.ExpectSent(Ack(first_ + 1));
  script_.ExpectCompletion(1);
  script_.ExpectCompletion(2);
}

// IBA C9-105; 9.7.5.1.4. A repeated READ uses the protection domain of the queue that it names.
TEST_F(XrcTargetTest, DuplicatesAreAnsweredAndNotExecuted) {
  script_.PostReceive(1, 4'096, 64);
  script_.SetWord(64, 1);
  const auto send = Send(Position::kOnly, first_).With("x");
  const auto add = FetchAdd(first_ + 1, Script::Address(64), script_.rkey(), 1);
  const auto read = Read(first_ + 2, Script::Address(64), script_.rkey(), 8);
  script_.Inject(send);
  script_.Inject(add);
  script_.Inject(read);
  script_.TakeSent();
  script_.ExpectCompletion(1);
  script_.ExpectDropped(DropReason::kDuplicateRequest, send);
  script_.ExpectSent(Ack(first_));
  script_.ExpectDropped(DropReason::kDuplicateRequest, add);
  script_.ExpectSent(AtomicAck(first_ + 1, 1));
  script_.ExpectDropped(DropReason::kDuplicateRequest, read);
  script_.ExpectSent(ReadResponse(Position::kOnly, first_ + 2).With(script_.Bytes(64, 8)));
  script_.ExpectDropped(DropReason::kDuplicateNotHeld, read.To(Srqn{1}));
  EXPECT_EQ(script_.Word(64), 2u);
  script_.ExpectState(QpState::kReadyToSend);
}

// A duplicate that names another queue does not affect the current message.
TEST_F(XrcTargetTest, ADuplicateInTheMiddleOfAMessage) {
  const auto other = NewQueue(Script::kXrcDomain, PdId{Script::kPd.value + 1});
  PostTo(*other, 2, 0, 0);
  script_.PostReceive(1, 4'096, 1'024);
  script_.Inject(Send(Position::kOnly, first_).To(other->srqn()));
  script_.ExpectCompletion(2);
  script_.Inject(Send(Position::kFirst, first_ + 1).With(Pattern(kPart)));
  script_.ExpectDropped(DropReason::kDuplicateRequest,
                        Send(Position::kOnly, first_).To(other->srqn()));
  script_.Inject(Send(Position::kLast, first_ + 2).With("x"));
  script_.TakeSent();
  EXPECT_EQ(script_.ExpectCompletion(1).byte_length, kPart + 1);
}

// IBA 11.6.3.1 SRQ_LIMIT_REACHED.
TEST_F(XrcTargetTest, LimitReachedIsRaised) {
  script_.PostReceive(1, 4'096, 64);
  EXPECT_EQ(script_.srq().SetLimit(1), Status::kOk);
  script_.Inject(Send(Position::kOnly, first_).With("x"));
  script_.ExpectSent(Ack(first_));
  script_.ExpectCompletion(1);
  script_.ExpectEvent(EventType::kSrqLimitReached);
}

// The target has no receive queue of its own, so ERR raises no LAST_WQE_REACHED.
TEST_F(XrcTargetTest, ErrFlushesTheRequestInUseOnly) {
  script_.BeginMessageFor(1, 2);
  EXPECT_EQ(script_.MoveTo(QpState::kError), Status::kOk);
  script_.ExpectCompletion(1, CompletionStatus::kFlushed);
  script_.ExpectNoCompletion();
  script_.ExpectNoEvent();
}

TEST_F(XrcTargetTest, ResetTakesTheRequestInUseWithIt) {
  script_.BeginMessageFor(1, 2);
  EXPECT_EQ(script_.MoveTo(QpState::kReset), Status::kOk);
  script_.ExpectNoCompletion();
  script_.Connect();
  script_.Inject(Send(Position::kOnly, first_).With("x"));
  script_.ExpectSent(Ack(first_));
  script_.ExpectCompletion(2);
}

TEST_F(XrcTargetTest, AMessageTooLongForItsRequestIsRefused) {
  script_.PostReceive(1, 4'096, 1);
  script_.Inject(Send(Position::kOnly, first_).With("xy"));
  script_.ExpectSent(Nak(first_, NakCode::kInvalidRequest));
  script_.ExpectCompletion(1, CompletionStatus::kLocalLengthError);
}

// IBA 11.6.3.2 CQ_ERR, QP_FATAL.
TEST(XrcTargetOverrunTest, ACompletionThatDoesNotFitEndsTheTarget) {
  Script script({.type = QpType::kXrcReceive, .cq_capacity = 1});
  script.HoldCompletions();
  for (uint64_t i = 1; i <= 2; ++i) script.PostReceive(i, 4'096, 64);
  script.Inject(Send(Position::kOnly, script.peers_first_psn()));
  script.Inject(Send(Position::kOnly, script.peers_first_psn() + 1));
  script.TakeSent();
  script.ExpectState(QpState::kError);
  script.ExpectEvent(EventType::kCqError);
  script.ExpectEvent(EventType::kQpFatal);
  script.ReleaseCompletions();
  script.ExpectCompletion(1);
}

// A target has no queues: nothing can be posted to it.
TEST_F(XrcTargetTest, TakesNoPosts) {
  EXPECT_EQ(script_.Post({}, 0, 1), Status::kInvalidArgument);
  EXPECT_EQ(script_.qp().PostReceive({}), Status::kInvalidArgument);
  EXPECT_EQ(script_.qp().Query().capabilities, QpCapabilities{});
}

TEST_F(XrcTargetTest, TakesNoResponsesAndNoOtherService) {
  script_.ExpectDropped(DropReason::kWrongService, Ack(script_.first_psn()));
  for (const Service service : {Service::kReliableConnection, Service::kUnreliableConnection}) {
    script_.ExpectDropped(DropReason::kWrongService, Send(Position::kOnly, first_).Of(service));
  }
  script_.ExpectNothingSent();
}

}  // namespace
}  // namespace uroce::transport::packet_scripts
