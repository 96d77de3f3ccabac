// An XRC target whose requests name shared receive queues of other processes of its host.

#include "transport/qp/xrc_relay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/transport/xrc_relay_fixture.h"

namespace uroce::transport {
namespace {

TEST_F(XrcRelayTest, SendReachesAQueueOfAnotherProcess) {
  third_.PostReceive(7);
  const auto bytes = Pattern(100);
  Send(third_.srqn(), bytes, 1);
  ExpectSuccess(1);
  EXPECT_TRUE(third_.HasReceived(bytes));
  const auto received = third_.Received();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].wr_id, 7u);
  EXPECT_EQ(received[0].byte_length, 100u);
  EXPECT_EQ(received[0].immediate_or_rkey, 1u);
  EXPECT_EQ(received[0].qpn, target_->qpn()) << "it names the target, not who works for it";
}

TEST_F(XrcRelayTest, LongMessagesAreExecutedWhole) {
  third_.PostReceive(7);
  const auto bytes = Pattern(40 * kMtuBytes + 5);
  Send(third_.srqn(), bytes, 1);
  ExpectSuccess(1);
  EXPECT_TRUE(third_.HasReceived(bytes));
  EXPECT_EQ(third_.Received().at(0).byte_length, bytes.size());
}

TEST_F(XrcRelayTest, MessageLongerThanTheRelayIsExecutedWhole) {
  const uint32_t bytes = (XrcRelay::kCapacity + 40) * kMtuBytes;
  const auto pattern = Pattern(bytes);
  std::copy(pattern.begin(), pattern.end(), first_.memory.begin());
  Post(SendOpcode::kRdmaWrite, third_.srqn(), bytes, 1, &third_);
  ExpectSuccess(1);
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), third_.memory.begin()));
}

TEST_F(XrcRelayTest, MessagesOfSeveralProcessesKeepTheirOrder) {
  for (uint64_t i = 0; i < 10; ++i) {
    for (Process* const process : {&owner_, &third_, &fourth_}) process->PostReceive(i);
  }
  uint64_t wr_id = 0;
  for (int i = 0; i < 10; ++i) {
    for (Process* const process : {&third_, &owner_, &fourth_}) {
      Send(process->srqn(), Pattern(2 * kMtuBytes, static_cast<uint8_t>(wr_id)), wr_id);
      ++wr_id;
    }
  }
  const auto completions = Complete(30);
  for (size_t i = 0; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i].wr_id, i);
    EXPECT_EQ(completions[i].status, CompletionStatus::kSuccess);
  }
  for (Process* const process : {&owner_, &third_, &fourth_}) {
    const auto received = process->Received();
    ASSERT_EQ(received.size(), 10u);
    for (size_t i = 0; i < received.size(); ++i) EXPECT_EQ(received[i].wr_id, i);
  }
}

TEST_F(XrcRelayTest, MemoryIsThatOfTheProcessOfTheQueue) {
  third_.PostReceive(7);
  const auto bytes = Pattern(3 * kMtuBytes);
  std::copy(bytes.begin(), bytes.end(), first_.memory.begin());
  Post(SendOpcode::kRdmaWriteWithImmediate, third_.srqn(), 3 * kMtuBytes, 1, &third_, 4'096);
  Post(SendOpcode::kRdmaRead, third_.srqn(), 3 * kMtuBytes, 2, &third_, 4'096, 100'000);
  ExpectSuccess(2);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), third_.memory.begin() + 4'096));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), first_.memory.begin() + 100'000));
  EXPECT_EQ(third_.Received().at(0).opcode, CompletionOpcode::kReceiveRdmaWithImmediate);
}

TEST_F(XrcRelayTest, ReadLongerThanTheRelayIsAnsweredWhole) {
  const uint32_t bytes = (XrcRelay::kCapacity + 40) * kMtuBytes + 1;
  const auto pattern = Pattern(bytes);
  std::copy(pattern.begin(), pattern.end(), third_.memory.begin());
  third_.PostReceive(7);
  Post(SendOpcode::kRdmaRead, third_.srqn(), bytes, 1, &third_);
  Post(SendOpcode::kSend, third_.srqn(), 8, 2);
  ExpectSuccess(2);
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), first_.memory.begin()));
}

TEST_F(XrcRelayTest, AtomicsAreExecutedOnceAndInOrder) {
  const uint64_t before = 5;
  std::memcpy(third_.memory.data(), &before, sizeof before);
  for (uint64_t i = 0; i < 4; ++i) {
    Post(SendOpcode::kFetchAndAdd, third_.srqn(), 8, i, &third_, 0, i * 8);
  }
  Post(SendOpcode::kCompareAndSwap, third_.srqn(), 8, 4, &third_, 0, 32);
  ExpectSuccess(5);
  std::array<uint64_t, 5> results;
  std::memcpy(results.data(), first_.memory.data(), sizeof results);
  EXPECT_EQ(results, (std::array<uint64_t, 5>{5, 10, 15, 20, 25}));
  uint64_t after;
  std::memcpy(&after, third_.memory.data(), sizeof after);
  EXPECT_EQ(after, 25u) << "the comparison failed";
}

TEST_F(XrcRelayTest, AtomicWriteIsExecuted) {
  const uint64_t number = 0x1234;
  std::memcpy(first_.memory.data(), &number, sizeof number);
  Post(SendOpcode::kAtomicWrite, third_.srqn(), 8, 1, &third_, 64);
  ExpectSuccess(1);
  uint64_t after;
  std::memcpy(&after, &third_.memory[64], sizeof after);
  EXPECT_EQ(after, number);
}

TEST_F(XrcRelayTest, EmptyQueueRefusesTheMessageUntilItHasARequest) {
  Send(third_.srqn(), Pattern(3 * kMtuBytes), 1);
  Exchange();
  EXPECT_TRUE(first_.Poll().empty());
  EXPECT_EQ(owner_.endpoint.counters().rnr_naks_sent, 1u);
  third_.PostReceive(7);
  Exchange();  // without a timer: the target's peer is on a link
  EXPECT_EQ(first_.Poll().size(), 1u);
  EXPECT_TRUE(third_.HasReceived(Pattern(3 * kMtuBytes)));
  EXPECT_EQ(third_.Received().size(), 1u);
}

TEST_F(XrcRelayTest, OwnEmptyQueueRefusesAMessageBehindOthers) {
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  Send(owner_.srqn(), Pattern(20), 2);
  Send(third_.srqn(), Pattern(30), 3);
  Exchange();
  EXPECT_EQ(first_.Poll().size(), 1u);
  third_.PostReceive(8);
  Exchange();
  EXPECT_TRUE(first_.Poll().empty()) << "messages stay in order";
  owner_.PostReceive(9);
  Exchange();
  EXPECT_EQ(first_.Poll().size(), 2u);
  EXPECT_EQ(third_.Received().size(), 2u);
}

TEST_F(XrcRelayTest, WithoutRetriesAnEmptyQueueEndsTheInitiator) {
  Connect(/*rnr_retry=*/0);
  Send(third_.srqn(), Pattern(10), 1);
  gone_ = nullptr;
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRnrRetryExceeded);
  third_.PostReceive(7);
  Exchange();
  EXPECT_TRUE(third_.Received().empty()) << "a refused message is not executed later";
}

TEST_F(XrcRelayTest, WrongKeyIsRefused) {
  third_.PostReceive(7);
  Send(third_.srqn(), Pattern(10), 1);
  Post(SendOpcode::kRdmaWrite, third_.srqn(), 8, 2, &fourth_);  // a key of another process
  const auto completions = Complete(2);
  EXPECT_EQ(completions.at(0).status, CompletionStatus::kSuccess);
  EXPECT_EQ(completions.at(1).status, CompletionStatus::kRemoteAccessError);
  EXPECT_EQ(target_->state(), QpState::kError);
}

TEST_F(XrcRelayTest, AccessThatTheTargetDoesNotGrantIsRefused) {
  QpAttributes a;
  ASSERT_EQ(target_->Modify(a, QpAttributeMask::kAccessFlags), Status::kOk);
  Post(SendOpcode::kRdmaWrite, third_.srqn(), 8, 1, &third_);
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
}

TEST_F(XrcRelayTest, UnknownQueueIsRefused) {
  Send(Srqn{third_.srqn().value + 1}, Pattern(10), 1);
  EXPECT_EQ(Complete(1).at(0).status, CompletionStatus::kRemoteInvalidRequest);
}

}  // namespace
}  // namespace uroce::transport
