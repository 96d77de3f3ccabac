// Registered memory that is unmapped or protected later ends an access as on-demand paging ends it:
// in an error completion, and with the queue pair that asked for it.

#include <gtest/gtest.h>

#include "tests/transport/connected_pair.h"
#include "tests/transport/fault_handler.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kTwoPackets = 2'000;  // at the pair's MTU of 1,024

class GoneMemoryTest : public testing::Test {
 protected:
  GoneMemoryTest() : client_key_(Register(pair_.client)), server_key_(Register(pair_.server)) {}

  LKey Register(TestHost& host) {
    return *host.endpoint.memory().Register({.pd = kTestPd,
                                             .iova = Address(0),
                                             .host_address = pages_.data(),
                                             .length = pages_.bytes(),
                                             .access = AccessFlags(kAllAccess)});
  }
  uint64_t Address(size_t offset) const {
    return reinterpret_cast<uint64_t>(pages_.data()) + offset;
  }

  // A request whose remote end is in the pages.
  SendWorkRequest RequestTo(SendOpcode opcode, size_t offset, uint32_t length) {
    SendWorkRequest request = pair_.Request(opcode, length);
    request.remote_address = Address(offset);
    request.rkey = RKey{server_key_.value};
    return request;
  }
  // A request whose local end is in the pages.
  SendWorkRequest RequestFrom(SendOpcode opcode, size_t offset, uint32_t length) {
    SendWorkRequest request = pair_.Request(opcode, length);
    pair_.sge = {Address(offset), length, client_key_};
    return request;
  }
  void Run(const SendWorkRequest& request) {
    ASSERT_EQ(pair_.client.qp->PostSend(request), Status::kOk);
    pair_.Exchange();
  }

  // The one completion of the client, in error.
  void ExpectClientFailed(CompletionStatus status, VendorError reason) {
    const auto completions = pair_.client.Poll();
    ASSERT_EQ(completions.size(), 1u);
    EXPECT_EQ(completions[0].wr_id, 7u);
    EXPECT_EQ(completions[0].status, status);
    EXPECT_EQ(completions[0].vendor_error, reason);
    EXPECT_EQ(pair_.client.qp->state(), QpState::kError);
  }
  // The responder found its memory gone, refused, and told the application by an event.
  void ExpectServerRefused() {
    ExpectClientFailed(CompletionStatus::kRemoteAccessError, VendorError::kNakRemoteAccess);
    EXPECT_EQ(pair_.server.qp->state(), QpState::kError);
    EXPECT_EQ(pair_.server.endpoint.counters().memory_gone, 1u);
    EXPECT_EQ(pair_.server.endpoint.counters().error_naks_sent, 1u);
    EXPECT_EQ(TakeServerEvent(), EventType::kQpAccessError);
  }
  void ExpectClientMemoryGone() {
    ExpectClientFailed(CompletionStatus::kLocalProtectionError, VendorError::kMemoryGone);
    EXPECT_EQ(pair_.client.endpoint.counters().memory_gone, 1u);
    EXPECT_EQ(pair_.server.endpoint.counters().memory_gone, 0u);
  }
  std::optional<EventType> TakeServerEvent() {
    while (const auto event = pair_.server.endpoint.TakeEvent()) {
      if (event->type != EventType::kCommunicationEstablished) return event->type;
    }
    return std::nullopt;
  }

  FaultHandler handler_;
  Pages pages_{2};
  ConnectedPair pair_;
  LKey client_key_;
  LKey server_key_;
};

TEST_F(GoneMemoryTest, WriteIsRefused) {
  pages_.TakeAway();
  Run(RequestTo(SendOpcode::kRdmaWrite, 0, 8));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, WriteIsRefusedAtThePacketThatMeetsTheHole) {
  pages_.Protect(1, PROT_READ);
  Run(RequestTo(SendOpcode::kRdmaWrite, pages_.page_bytes() - 1'024, kTwoPackets));
  ExpectServerRefused();
}

// The byte that is written last.
TEST_F(GoneMemoryTest, WriteOfOneByteIsRefused) {
  pages_.Protect(0, PROT_NONE);
  Run(RequestTo(SendOpcode::kRdmaWrite, 0, 1));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, ReadIsRefused) {
  pages_.TakeAway();
  Run(RequestTo(SendOpcode::kRdmaRead, 0, 8));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, ReadIsRefusedAtThePacketThatMeetsTheHole) {
  pages_.Protect(1, PROT_NONE);
  Run(RequestTo(SendOpcode::kRdmaRead, pages_.page_bytes() - 1'024, kTwoPackets));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, AtomicsAreRefused) {
  pages_.Protect(0, PROT_READ);
  Run(RequestTo(SendOpcode::kFetchAndAdd, 0, 8));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, CompareAndSwapIsRefused) {
  pages_.Protect(0, PROT_NONE);
  Run(RequestTo(SendOpcode::kCompareAndSwap, 8, 8));
  ExpectServerRefused();
}

TEST_F(GoneMemoryTest, ReceiveFailsAsWithAWrongKey) {
  const ScatterGatherEntry receive = {Address(0), 100, server_key_};
  ASSERT_EQ(pair_.server.qp->PostReceive({.wr_id = 9, .sges = {&receive, 1}}), Status::kOk);
  pages_.TakeAway();
  Run(pair_.Request(SendOpcode::kSend, 100));
  ExpectClientFailed(CompletionStatus::kRemoteOperationError, VendorError::kNakRemoteOperation);
  const auto received = pair_.server.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(received[0].vendor_error, VendorError::kMemoryGone);
  EXPECT_EQ(pair_.server.endpoint.counters().memory_gone, 1u);
}

TEST_F(GoneMemoryTest, SourceOfASendOrAWrite) {
  pages_.TakeAway();
  Run(RequestFrom(SendOpcode::kRdmaWrite, 0, 8));
  ExpectClientMemoryGone();
}

// What was sent before the hole arrives; the request fails when it has been acknowledged.
TEST_F(GoneMemoryTest, SourceThatEndsInTheMiddleOfAMessage) {
  pages_.Protect(1, PROT_NONE);
  Run(RequestFrom(SendOpcode::kRdmaWrite, pages_.page_bytes() - 1'024, kTwoPackets));
  ExpectClientMemoryGone();
}

TEST_F(GoneMemoryTest, DestinationOfARead) {
  pages_.Protect(0, PROT_READ);
  Run(RequestFrom(SendOpcode::kRdmaRead, 0, 8));
  ExpectClientMemoryGone();
}

TEST_F(GoneMemoryTest, DestinationOfAnAtomic) {
  pages_.Protect(0, PROT_READ);
  Run(RequestFrom(SendOpcode::kFetchAndAdd, 0, 8));
  ExpectClientMemoryGone();
}

TEST_F(GoneMemoryTest, InlineDataThatCannotBeReadIsNotPosted) {
  pages_.TakeAway();
  SendWorkRequest request = RequestFrom(SendOpcode::kRdmaWrite, 0, 8);
  request.inline_data = true;
  EXPECT_EQ(pair_.client.qp->PostSend(request), Status::kBadAddress);
  // Nothing is left behind.
  Run(pair_.Request(SendOpcode::kRdmaWrite, 8));
  const auto completions = pair_.client.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

// A requester that comes again for a READ whose memory has gone since is not answered: it was once,
// and its key is as good as given up.
TEST_F(GoneMemoryTest, ReplayOfAReadIsDropped) {
  ASSERT_EQ(pair_.client.qp->PostSend(RequestTo(SendOpcode::kRdmaRead, 0, 8)), Status::kOk);
  ASSERT_TRUE(pair_.Move(pair_.client.endpoint, pair_.server.endpoint));
  ASSERT_NE(pair_.server.endpoint.PollTransmit(pair_.now, Route::kWire, pair_.frame), 0u);  // lost
  pages_.TakeAway();
  pair_.now = pair_.client.endpoint.NextDeadline();
  pair_.client.endpoint.OnDeadline(pair_.now);
  pair_.Exchange();
  EXPECT_EQ(pair_.server.qp->state(), QpState::kReadyToSend);
  EXPECT_EQ(pair_.server.endpoint.counters().memory_gone, 1u);
  EXPECT_TRUE(pair_.client.Poll().empty());
}

}  // namespace
}  // namespace uroce::transport
