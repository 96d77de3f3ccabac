// Registered memory that is unmapped or protected later makes an access fail as on-demand paging
// does: with an error completion, and the end of the queue pair that asked for the access.

#include <gtest/gtest.h>

#include <string>

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

  // A request whose remote memory is in the pages.
  SendWorkRequest RequestTo(SendOpcode opcode, size_t offset, uint32_t length) {
    SendWorkRequest request = pair_.Request(opcode, length);
    request.remote_address = Address(offset);
    request.rkey = RKey{server_key_.value};
    return request;
  }
  // A request whose local memory is in the pages.
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
  // The responder found its memory gone, refused the request, and raised an event.
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

// An access to the pages after one or both of them became inaccessible.
struct GoneAccess {
  const char* name;
  bool is_remote;  // the pages are at the other end
  SendOpcode opcode;
  size_t page;
  int protection;  // of the page after that; kUnmapped: both pages are unmapped
  size_t offset;   // kCrossing: a packet before the second page
  uint32_t length;
};
constexpr int kUnmapped = -1;
constexpr size_t kCrossing = SIZE_MAX;

class GoneAccessTest : public GoneMemoryTest, public testing::WithParamInterface<GoneAccess> {};

TEST_P(GoneAccessTest, EndsTheQueuePairThatAskedForIt) {
  const GoneAccess& access = GetParam();
  if (access.protection == kUnmapped) {
    pages_.TakeAway();
  } else {
    pages_.Protect(access.page, access.protection);
  }
  const size_t offset = access.offset == kCrossing ? pages_.page_bytes() - 1'024 : access.offset;
  if (access.is_remote) {
    Run(RequestTo(access.opcode, offset, access.length));
    ExpectServerRefused();
  } else {
    Run(RequestFrom(access.opcode, offset, access.length));
    ExpectClientMemoryGone();
  }
}

TEST_P(GoneAccessTest, IsServedIfTheProtectedMemoryCanBeReached) {
  const GoneAccess& access = GetParam();
  const ProtectedPages reached(pages_);
  if (access.protection == kUnmapped) GTEST_SKIP() << "not protected";
  pages_.TakeAway();
  const size_t offset = access.offset == kCrossing ? pages_.page_bytes() - 1'024 : access.offset;
  Run(access.is_remote ? RequestTo(access.opcode, offset, access.length)
                       : RequestFrom(access.opcode, offset, access.length));
  const auto completions = pair_.client.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

INSTANTIATE_TEST_SUITE_P(
    Accesses, GoneAccessTest,
    testing::Values(
        GoneAccess{"Write", true, SendOpcode::kRdmaWrite, 0, kUnmapped, 0, 8},
        GoneAccess{"WriteInTheMiddle", true, SendOpcode::kRdmaWrite, 1, PROT_READ, kCrossing,
                   kTwoPackets},
        // The byte that is written last.
        GoneAccess{"WriteOfOneByte", true, SendOpcode::kRdmaWrite, 0, PROT_NONE, 0, 1},
        GoneAccess{"Read", true, SendOpcode::kRdmaRead, 0, kUnmapped, 0, 8},
        GoneAccess{"ReadInTheMiddle", true, SendOpcode::kRdmaRead, 1, PROT_NONE, kCrossing,
                   kTwoPackets},
        GoneAccess{"FetchAndAdd", true, SendOpcode::kFetchAndAdd, 0, PROT_READ, 0, 8},
        GoneAccess{"CompareAndSwap", true, SendOpcode::kCompareAndSwap, 0, PROT_NONE, 8, 8},
        GoneAccess{"AtomicWrite", true, SendOpcode::kAtomicWrite, 0, PROT_READ, 0, 8},
        GoneAccess{"SourceOfAnAtomicWrite", false, SendOpcode::kAtomicWrite, 0, PROT_NONE, 0, 8},
        GoneAccess{"SourceOfAWrite", false, SendOpcode::kRdmaWrite, 0, kUnmapped, 0, 8},
        // The packets before the hole arrive; the request fails once they have been acknowledged.
        GoneAccess{"SourceInTheMiddle", false, SendOpcode::kRdmaWrite, 1, PROT_NONE, kCrossing,
                   kTwoPackets},
        GoneAccess{"DestinationOfARead", false, SendOpcode::kRdmaRead, 0, PROT_READ, 0, 8},
        GoneAccess{"DestinationOfAnAtomic", false, SendOpcode::kFetchAndAdd, 0, PROT_READ, 0, 8}),
    [](const auto& access) { return std::string(access.param.name); });

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

TEST_F(GoneMemoryTest, InlineDataThatCannotBeReadIsNotPosted) {
  pages_.TakeAway();
  SendWorkRequest request = RequestFrom(SendOpcode::kRdmaWrite, 0, 8);
  request.inline_data = true;
  EXPECT_EQ(pair_.client.qp->PostSend(request), Status::kBadAddress);
  // The refused request leaves nothing behind.
  Run(pair_.Request(SendOpcode::kRdmaWrite, 8));
  const auto completions = pair_.client.Poll();
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

// A repeated READ whose memory has gone since is dropped: the requester was answered once, and its
// key is as good as given up.
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
