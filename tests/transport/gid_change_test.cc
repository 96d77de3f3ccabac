// The GID table changes under queue pairs and address handles: frames of a removed address reach no
// peer, and everything else is unchanged.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/transport/connected_pair.h"
#include "transport/wire/frame_parser.h"

namespace uroce::transport {
namespace {

constexpr uint8_t kIndex = 1;  // index of the IPv4 address

class GidChangeTest : public testing::Test {
 protected:
  // Sets an entry of the client's GID table.
  void Set(const Gid& gid, uint8_t index = kIndex) {
    std::vector<Gid> gids = pair_.client.endpoint.config().gids;
    gids[index] = gid;
    pair_.client.endpoint.FollowGids(gids);
  }
  void Write() {
    ASSERT_EQ(pair_.client.qp->PostSend(pair_.Request(SendOpcode::kRdmaWrite, 100)), Status::kOk);
    pair_.Exchange();
  }
  // Runs the next timer of the client.
  void Wait() {
    pair_.now = std::max(pair_.now, pair_.client.endpoint.NextDeadline());
    pair_.client.endpoint.OnDeadline(pair_.now);
    pair_.Exchange();
  }
  CompletionStatus StatusInTheEnd() {
    for (int timers = 0; timers < 10'000; ++timers) {
      if (const auto completions = pair_.client.Poll(); !completions.empty()) {
        return completions[0].status;
      }
      Wait();
    }
    return CompletionStatus::kFlushed;
  }

  ConnectedPair pair_{kIndex};
  const Gid own_ = pair_.client.endpoint.config().gids[kIndex];
};

TEST_F(GidChangeTest, ConnectionFromAnAddressThatHasGoneRunsOutOfRetries) {
  Write();
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kSuccess);
  Set({});
  Write();
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kRetryExceeded);
}

TEST_F(GidChangeTest, PacketsToAnAddressThatHasGoneAreDropped) {
  Set({});
  SendWorkRequest write;
  write.opcode = SendOpcode::kRdmaWrite;
  write.signaled = true;
  ASSERT_EQ(pair_.server.qp->PostSend(write), Status::kOk);
  pair_.Exchange();
  EXPECT_TRUE(pair_.server.Poll().empty());
  EXPECT_NE(pair_.last_drop, DropReason::kNone);
}

TEST_F(GidChangeTest, OtherAddressesChangeNothing) {
  Set({}, 0);
  Write();
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kSuccess);
}

TEST_F(GidChangeTest, ConnectionGoesOnWhenItsAddressComesBack) {
  Set({});
  Write();
  EXPECT_TRUE(pair_.client.Poll().empty());
  Set(own_);
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kSuccess);
}

// A connection keeps its address, whichever address its entry gets.
TEST_F(GidChangeTest, ConnectionDoesNotTakeANewAddressOfItsEntry) {
  Set(Gid::FromIpv4({10, 0, 0, 77}));
  Write();
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kRetryExceeded);
}

TEST_F(GidChangeTest, ConnectionKeepsItsAddressAtAnotherEntry) {
  pair_.client.endpoint.FollowGids({pair_.client.endpoint.config().gids[0], {}, own_});
  Write();
  EXPECT_EQ(StatusInTheEnd(), CompletionStatus::kSuccess);
}

TEST_F(GidChangeTest, FreeEntryIsNoSource) {
  using M = QpAttributeMask;
  Set({});
  QueuePair* qp = nullptr;
  ASSERT_EQ(pair_.client.endpoint.CreateQueuePair(pair_.client.qp->init_attributes(), &qp),
            Status::kOk);
  QpAttributes a;
  a.state = QpState::kInit;
  a.port_num = 1;
  ASSERT_EQ(qp->Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
  a.state = QpState::kReadyToReceive;
  a.path_mtu = Mtu::k1024;
  a.max_dest_read_atomic = 1;
  a.address = {.destination_gid = Gid::FromIpv4({10, 0, 0, 2}), .source_gid_index = kIndex};
  constexpr uint32_t kMask = M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                             M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer;
  EXPECT_EQ(qp->Modify(a, kMask), Status::kInvalidArgument);
  a.address.destination_gid = Gid::LinkLocal({2, 0, 0, 0, 0, 2});
  EXPECT_EQ(qp->Modify(a, kMask), Status::kInvalidArgument);
  Set(own_);
  a.address.destination_gid = Gid::FromIpv4({10, 0, 0, 2});
  EXPECT_EQ(qp->Modify(a, kMask), Status::kOk);
  pair_.client.endpoint.DestroyQueuePair(qp);
}

TEST_F(GidChangeTest, ZeroAddressIsNeverLocal) {
  Set({});
  EXPECT_EQ(pair_.client.endpoint.config().FindGid({}), -1);
  EXPECT_EQ(pair_.client.endpoint.config().RouteTo({}, pair_.client.qp->qpn()), Route::kWire);
}

TEST_F(GidChangeTest, GidChangeRaisesADeviceEvent) {
  Set({});
  const auto event = pair_.client.endpoint.TakeEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, EventType::kGidChange);
  EXPECT_EQ(event->context, pair_.client.endpoint.config().context);
  EXPECT_FALSE(pair_.client.endpoint.TakeEvent().has_value());
}

// Sent to a queue pair of our own, it would otherwise arrive as if nothing had happened.
TEST_F(GidChangeTest, DatagramFromAFreeEntryIsNotLoopedBack) {
  TestHost& host = pair_.client;
  QpInitAttributes init = host.qp->init_attributes();
  init.type = QpType::kUnreliableDatagram;
  QueuePair* qp = nullptr;
  ASSERT_EQ(host.endpoint.CreateQueuePair(init, &qp), Status::kOk);
  BringUpDatagram(*qp, 0);
  const AddressVector address = {.destination_gid = own_, .source_gid_index = kIndex};
  SendWorkRequest send;
  send.address = &address;
  send.remote_qpn = qp->qpn();
  ASSERT_EQ(qp->PostSend(send), Status::kOk);
  EXPECT_TRUE(host.endpoint.HasTransmit(Route::kLoopback));
  std::vector<uint8_t> frame(kMaxFrameBytes);
  EXPECT_NE(host.endpoint.PollTransmit(pair_.now, Route::kLoopback, frame), 0u);
  Set({});
  ASSERT_EQ(qp->PostSend(send), Status::kOk);
  EXPECT_FALSE(host.endpoint.HasTransmit(Route::kLoopback));
  const size_t bytes = host.endpoint.PollTransmit(pair_.now, Route::kWire, frame);
  ASSERT_NE(bytes, 0u);
  Packet packet;
  ASSERT_EQ(ParseFrame(std::span(frame).first(bytes), packet), DropReason::kNone);
  EXPECT_EQ(packet.flow.source, Gid::FromIpv4({}));
  host.endpoint.DestroyQueuePair(qp);
}

}  // namespace
}  // namespace uroce::transport
