// The services other than the reliable connection, end to end between two endpoints.

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "tests/transport/connected_pair.h"
#include "transport/limits.h"
#include "transport/qp/shared_receive_queue.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;

constexpr uint32_t kQkey = 0x1234'5678;

// A queue pair of the given service; every TestHost has an RC queue pair already.
QueuePair* Create(TestHost& host, QpType type, SharedReceiveQueue* srq = nullptr) {
  QpInitAttributes init = host.qp->init_attributes();
  init.type = type;
  init.srq = srq;
  QueuePair* qp = nullptr;
  EXPECT_EQ(host.endpoint.CreateQueuePair(init, &qp), Status::kOk);
  return qp;
}

void BringUpUnreliable(QueuePair& qp, const TestHost& peer, Qpn remote) {
  QpAttributes a;
  a.state = QpState::kInit;
  a.port_num = 1;
  a.access = AccessFlags(kAllAccess);
  ASSERT_EQ(qp.Modify(a, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags), Status::kOk);
  a.state = QpState::kReadyToReceive;
  a.path_mtu = Mtu::k1024;
  a.destination_qpn = remote;
  a.rq_psn = kFirstPsn;
  a.address = {.destination_gid = peer.endpoint.config().gids[1],
               .destination_mac = peer.endpoint.config().mac,
               .source_gid_index = 1};
  ASSERT_EQ(
      qp.Modify(a, M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn),
      Status::kOk);
  a.state = QpState::kReadyToSend;
  a.sq_psn = kFirstPsn;
  ASSERT_EQ(qp.Modify(a, M::kState | M::kSqPsn), Status::kOk);
}

class ServicesTest : public testing::Test {
 protected:
  void Receive(QueuePair& qp, TestHost& host, size_t offset, uint32_t length, uint64_t wr_id = 9) {
    const ScatterGatherEntry sge = {host.address(offset), length, host.key};
    ASSERT_EQ(qp.PostReceive({.wr_id = wr_id, .sges = {&sge, 1}}), Status::kOk);
  }

  // Carries all frames of the client except number `lost`.
  void SendAllBut(std::optional<int> lost) {
    int number = 0;
    while (const size_t bytes =
               pair.client.endpoint.PollTransmit(pair.now, Route::kWire, pair.frame)) {
      if (number++ == lost) continue;
      last_drop = pair.server.endpoint.OnFrame(pair.now, std::span(pair.frame).first(bytes));
    }
  }

  ConnectedPair pair;
  DropReason last_drop = DropReason::kNone;
};

class UnreliableTest : public ServicesTest {
 protected:
  UnreliableTest()
      : client(Create(pair.client, QpType::kUnreliableConnection)),
        server(Create(pair.server, QpType::kUnreliableConnection)) {
    BringUpUnreliable(*client, pair.server, server->qpn());
    BringUpUnreliable(*server, pair.client, client->qpn());
    for (size_t i = 0; i < 4'000; ++i) pair.client.memory[i] = static_cast<uint8_t>(i * 7);
  }

  QueuePair* client;
  QueuePair* server;
};

// IBA 9.8.2.
TEST_F(UnreliableTest, WholeMessageIsDelivered) {
  Receive(*server, pair.server, 0, 4'000);
  ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSendWithImmediate, 4'000)), Status::kOk);
  SendAllBut(std::nullopt);
  const auto sent = pair.client.Poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kSuccess);
  const auto received = pair.server.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_length, 4'000u);
  EXPECT_EQ(received[0].flags, Completion::kHasImmediate);
  EXPECT_EQ(received[0].source_qpn, client->qpn());
  EXPECT_EQ(std::memcmp(pair.client.memory.data(), pair.server.memory.data(), 4'000), 0);
}

// IBA 9.9.3.1 class D1: whichever packet is lost, the whole message is dropped, and the next
// message uses the receive request.
TEST_F(UnreliableTest, MessageWithALostPacketIsDroppedWhole) {
  for (int lost = 0; lost < 4; ++lost) {
    Receive(*server, pair.server, 0, 4'000);
    ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSend, 4'000)), Status::kOk);
    SendAllBut(lost);
    EXPECT_TRUE(pair.server.Poll().empty()) << lost;
    ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSend, 100)), Status::kOk);
    SendAllBut(std::nullopt);
    const auto received = pair.server.Poll();
    ASSERT_EQ(received.size(), 1u) << lost;
    EXPECT_EQ(received[0].byte_length, 100u);
    EXPECT_EQ(pair.client.Poll().size(), 2u);
  }
}

// IBA 10.3.1.6, C10-38: the send queue stops, the receive queue keeps working, SQE -> RTS recovers.
TEST_F(UnreliableTest, LocalErrorStopsTheSendQueueOnly) {
  ScatterGatherEntry bad = {pair.client.address(0), 64, LKey{0xdead}};
  SendWorkRequest request = pair.Request(SendOpcode::kSend, 64);
  request.sges = {&bad, 1};
  request.signaled = false;
  ASSERT_EQ(client->PostSend(request), Status::kOk);
  ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSend, 64)), Status::kOk);
  SendAllBut(std::nullopt);
  const auto sent = pair.client.Poll();
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].status, CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(sent[1].status, CompletionStatus::kFlushed);
  EXPECT_EQ(client->state(), QpState::kSendQueueError);

  Receive(*client, pair.client, 0, 64);
  ASSERT_EQ(server->PostSend(pair.Request(SendOpcode::kSend, 0)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.client.Poll().size(), 1u);

  QpAttributes a;
  a.state = QpState::kReadyToSend;
  ASSERT_EQ(client->Modify(a, M::kState), Status::kOk);
  Receive(*server, pair.server, 0, 64);
  ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSend, 64)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.client.Poll().at(0).status, CompletionStatus::kSuccess);
}

class DatagramTest : public ServicesTest {
 protected:
  DatagramTest()
      : client(Create(pair.client, QpType::kUnreliableDatagram)),
        server(Create(pair.server, QpType::kUnreliableDatagram)) {
    BringUpDatagram(*client, kQkey, kFirstPsn);
    BringUpDatagram(*server, kQkey, kFirstPsn);
    address = {.destination_gid = pair.server.endpoint.config().gids[1],
               .destination_mac = pair.server.endpoint.config().mac,
               .source_gid_index = 1};
  }

  SendWorkRequest Datagram(uint32_t length, uint32_t qkey = kQkey) {
    SendWorkRequest request = pair.Request(SendOpcode::kSend, length);
    request.remote_qpn = server->qpn();
    request.remote_qkey = qkey;
    request.address = &address;
    return request;
  }

  QueuePair* client;
  QueuePair* server;
  AddressVector address;
};

// IBA 9.8.3, A17.4.5.2.
TEST_F(DatagramTest, ArrivesBehindItsGrh) {
  Receive(*server, pair.server, 0, 200);
  ASSERT_EQ(client->PostSend(Datagram(100)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.client.Poll().at(0).status, CompletionStatus::kSuccess);
  const auto received = pair.server.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_length, 140u);
  EXPECT_EQ(received[0].flags, Completion::kHasGrh);
  EXPECT_EQ(received[0].source_qpn, client->qpn());
  EXPECT_EQ(received[0].qpn, server->qpn());
  EXPECT_EQ(pair.server.memory[20], 0x45);  // the IPv4 header lies in the last 20 bytes
  EXPECT_EQ(std::memcmp(&pair.server.memory[40], pair.client.memory.data(), 100), 0);
}

// IBA 9.6.1.4.1, 9.9.3.1 class D.
TEST_F(DatagramTest, WrongQkeyIsDroppedAndCounted) {
  Receive(*server, pair.server, 0, 200);
  ASSERT_EQ(client->PostSend(Datagram(100, kQkey + 1)), Status::kOk);
  pair.Exchange();
  EXPECT_TRUE(pair.server.Poll().empty());
  EXPECT_EQ(pair.server.endpoint.counters().drops(DropReason::kBadQkey), 1u);
}

// IBA 10.2.5: a Q_Key with the high bit set stands for the sender's own.
TEST_F(DatagramTest, ControlledQkeyStandsForTheQueuePairsOwn) {
  Receive(*server, pair.server, 0, 200);
  ASSERT_EQ(client->PostSend(Datagram(100, 0x8000'0000)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.server.Poll().size(), 1u);
}

// IBA C10-93.1.1.
TEST_F(DatagramTest, LongerThanTheMtuStopsTheSendQueue) {
  ASSERT_EQ(client->PostSend(Datagram(4'097)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.client.Poll().at(0).status, CompletionStatus::kLocalLengthError);
  EXPECT_EQ(client->state(), QpState::kSendQueueError);
}

// Each datagram takes its own route: to the wire, to the sender itself, to the wire again.
TEST_F(DatagramTest, EachDatagramTakesItsOwnRoute) {
  const AddressVector home = {.destination_gid = pair.client.endpoint.config().gids[1],
                              .source_gid_index = 1};
  for (int i = 0; i < 2; ++i) Receive(*server, pair.server, 0, 200);
  Receive(*client, pair.client, 1'000, 200);
  SendWorkRequest to_self = Datagram(10);
  to_self.remote_qpn = client->qpn();
  to_self.address = &home;
  ASSERT_EQ(client->PostSend(Datagram(10)), Status::kOk);
  ASSERT_EQ(client->PostSend(to_self), Status::kOk);
  ASSERT_EQ(client->PostSend(Datagram(10)), Status::kOk);
  pair.Exchange();
  EXPECT_EQ(pair.server.Poll().size(), 1u) << "the second must not overtake the loopback";
  const size_t bytes = pair.client.endpoint.PollTransmit(pair.now, Route::kLoopback, pair.frame);
  ASSERT_NE(bytes, 0u);
  const auto looped_back = std::span(pair.frame).first(bytes);
  EXPECT_EQ(pair.client.endpoint.OnFrame(pair.now, looped_back), DropReason::kForeignSource)
      << "our own frames do not come from the wire";
  EXPECT_EQ(pair.client.endpoint.OnFrame(pair.now, looped_back, Route::kLoopback),
            DropReason::kNone);
  pair.Exchange();
  EXPECT_EQ(pair.server.Poll().size(), 1u);
  EXPECT_EQ(pair.client.Poll().size(), 4u);
}

// IBA 10.5.2.
TEST_F(DatagramTest, MulticastReachesEveryMemberAndTheSender) {
  const Gid group = Gid::FromIpv4({239, 1, 2, 3});
  QueuePair* second = Create(pair.server, QpType::kUnreliableDatagram);
  BringUpDatagram(*second, kQkey, kFirstPsn);
  ASSERT_EQ(pair.client.endpoint.AttachMulticast(*client, group), Status::kOk);
  ASSERT_EQ(pair.server.endpoint.AttachMulticast(*server, group), Status::kOk);
  ASSERT_EQ(pair.server.endpoint.AttachMulticast(*second, group), Status::kOk);
  Receive(*client, pair.client, 1'000, 200);
  Receive(*server, pair.server, 0, 200);
  Receive(*second, pair.server, 1'000, 200);

  address = {
      .destination_gid = group, .destination_mac = {1, 0, 0x5e, 1, 2, 3}, .source_gid_index = 1};
  SendWorkRequest request = Datagram(50);
  request.remote_qpn = kMulticastQpn;
  ASSERT_EQ(client->PostSend(request), Status::kOk);
  pair.Exchange();
  const auto received = pair.server.Poll();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].qpn, server->qpn());
  EXPECT_EQ(received[1].qpn, second->qpn());
  EXPECT_EQ(pair.client.Poll().size(), 2u);

  ASSERT_EQ(pair.server.endpoint.DetachMulticast(*second, group), Status::kOk);
  EXPECT_EQ(pair.server.endpoint.DetachMulticast(*second, group), Status::kInvalidArgument);
}

class GroupTest : public DatagramTest {
 protected:
  // A queue pair of the server that is attached to the group.
  QueuePair* Member() {
    QueuePair* member = Create(pair.server, QpType::kUnreliableDatagram);
    BringUpDatagram(*member, kQkey, kFirstPsn);
    EXPECT_EQ(pair.server.endpoint.AttachMulticast(*member, kGroup), Status::kOk);
    return member;
  }
  void SendToGroup() {
    address = {
        .destination_gid = kGroup, .destination_mac = {1, 0, 0x5e, 1, 2, 3}, .source_gid_index = 1};
    SendWorkRequest request = Datagram(50);
    request.remote_qpn = kMulticastQpn;
    ASSERT_EQ(client->PostSend(request), Status::kOk);
    pair.Exchange();
  }
  uint64_t DropsOfServer() const {
    uint64_t drops = 0;
    for (const uint64_t of_one_reason : pair.server.endpoint.counters().dropped) {
      drops += of_one_reason;
    }
    return drops;
  }

  const Gid kGroup = Gid::FromIpv4({239, 1, 2, 3});
};

TEST_F(GroupTest, DatagramAcceptedByOneMemberIsNotCountedAsDropped) {
  QueuePair* first = Member();
  QueuePair* last = Member();
  for (QueuePair* ready : {first, last}) {
    Receive(*ready, pair.server, 0, 200);
    SendToGroup();
    EXPECT_EQ(pair.server.Poll().size(), 1u);
    EXPECT_EQ(DropsOfServer(), 0u);
  }
  SendToGroup();
  EXPECT_EQ(pair.server.endpoint.counters().drops(DropReason::kReceiverNotReady), 1u);
}

// A port that loops every multicast frame back does not know which groups have members.
TEST_F(GroupTest, OwnCopyThatHasNoMemberIsNotCountedAsADrop) {
  address = {
      .destination_gid = kGroup, .destination_mac = {1, 0, 0x5e, 1, 2, 3}, .source_gid_index = 1};
  SendWorkRequest request = Datagram(50);
  request.remote_qpn = kMulticastQpn;
  ASSERT_EQ(client->PostSend(request), Status::kOk);
  Endpoint& endpoint = pair.client.endpoint;
  const size_t bytes = endpoint.PollTransmit(pair.now, Route::kWire, pair.frame);
  const auto frame = std::span(pair.frame).first(bytes);
  EXPECT_EQ(endpoint.OnFrame(pair.now, frame, Route::kLoopback), DropReason::kNone);
  EXPECT_EQ(endpoint.counters().drops(DropReason::kNotAMember), 0u);
  EXPECT_EQ(endpoint.OnFrame(pair.now, frame, Route::kWire), DropReason::kNotAMember);
  EXPECT_EQ(endpoint.counters().drops(DropReason::kNotAMember), 1u);
}

TEST_F(GroupTest, MemberGetsNoCopyFromAnEndpointWhoseFramesAreBroughtBack) {
  for (const bool copies : {true, false}) {
    EndpointConfig config = pair.client.endpoint.config();
    config.copies_to_own_members = copies;
    TestHost host(config);
    QueuePair* member = Create(host, QpType::kUnreliableDatagram);
    BringUpDatagram(*member, kQkey, kFirstPsn);
    ASSERT_EQ(host.endpoint.AttachMulticast(*member, kGroup), Status::kOk);
    Receive(*member, host, 0, 200);
    address = {
        .destination_gid = kGroup, .destination_mac = {1, 0, 0x5e, 1, 2, 3}, .source_gid_index = 1};
    SendWorkRequest request = Datagram(0);
    request.signaled = false;
    request.remote_qpn = kMulticastQpn;
    ASSERT_EQ(member->PostSend(request), Status::kOk);
    EXPECT_NE(host.endpoint.PollTransmit(pair.now, Route::kWire, pair.frame), 0u);
    EXPECT_EQ(host.Poll().size(), copies ? 1u : 0u);
  }
}

TEST_F(GroupTest, ADestroyedMemberHasLeft) {
  QueuePair* member = Member();
  Receive(*member, pair.server, 0, 200);
  pair.server.endpoint.DestroyQueuePair(member);
  SendToGroup();
  EXPECT_TRUE(pair.server.Poll().empty());
  EXPECT_EQ(pair.server.endpoint.counters().drops(DropReason::kNotAMember), 1u);
}

TEST_F(GroupTest, TheSendersEndpointNeedsNoMemberOfItsOwn) {
  SendToGroup();
  EXPECT_EQ(pair.client.Poll().at(0).status, CompletionStatus::kSuccess);
  for (const uint64_t drops : pair.client.endpoint.counters().dropped) EXPECT_EQ(drops, 0u);
}

TEST_F(GroupTest, AttachBeyondTheMaximumOfMembersIsRefused) {
  for (uint32_t i = 0; i < kMaxMulticastMembers; ++i) Member();
  QueuePair* one_more = Create(pair.server, QpType::kUnreliableDatagram);
  EXPECT_EQ(pair.server.endpoint.AttachMulticast(*one_more, kGroup), Status::kNoMemory);
}

// IBA 11.3.1.
TEST_F(GroupTest, OnlyDatagramQueuePairsJoinAndOnlyGroups) {
  Endpoint& endpoint = pair.server.endpoint;
  EXPECT_EQ(endpoint.AttachMulticast(*pair.server.qp, kGroup), Status::kInvalidArgument);
  EXPECT_EQ(endpoint.AttachMulticast(*server, Gid::FromIpv4({10, 0, 0, 9})),
            Status::kInvalidArgument);
  EXPECT_FALSE(endpoint.HasMulticastMembers(kGroup));
}

TEST_F(GroupTest, AttachingAgainChangesNothing) {
  Endpoint& endpoint = pair.server.endpoint;
  ASSERT_EQ(endpoint.AttachMulticast(*server, kGroup), Status::kOk);
  ASSERT_EQ(endpoint.AttachMulticast(*server, kGroup), Status::kOk);
  Receive(*server, pair.server, 0, 200);
  Receive(*server, pair.server, 0, 200);
  SendToGroup();
  EXPECT_EQ(pair.server.Poll().size(), 1u);
}

// A group counts while it has members.
TEST_F(GroupTest, AttachBeyondTheMaximumOfGroupsIsRefused) {
  Endpoint& endpoint = pair.server.endpoint;
  const auto group = [](uint32_t number) {
    return Gid::FromIpv4(
        {239, 0, static_cast<uint8_t>(number >> 8), static_cast<uint8_t>(number & 255)});
  };
  QueuePair* member = Create(pair.server, QpType::kUnreliableDatagram);
  for (uint32_t i = 0; i < kMaxMulticastGroups; ++i) {
    ASSERT_EQ(endpoint.AttachMulticast(*member, group(i)), Status::kOk) << i;
  }
  EXPECT_EQ(endpoint.AttachMulticast(*server, group(kMaxMulticastGroups)), Status::kNoMemory);
  EXPECT_EQ(endpoint.AttachMulticast(*server, group(0)), Status::kOk);

  ASSERT_EQ(endpoint.DetachMulticast(*member, group(7)), Status::kOk);
  EXPECT_EQ(endpoint.AttachMulticast(*server, group(kMaxMulticastGroups)), Status::kOk);
  endpoint.DestroyQueuePair(member);
  for (uint32_t i = 0; i < kMaxMulticastGroups - 1; ++i) {
    ASSERT_EQ(endpoint.AttachMulticast(*server, group(i)), Status::kOk) << i;
  }
}

// A refusal by an own member of the sender counts like one by the peer's member.
TEST_F(GroupTest, CopyThatAnOwnMemberRefusesIsCounted) {
  ASSERT_EQ(pair.client.endpoint.AttachMulticast(*client, kGroup), Status::kOk);
  SendToGroup();
  EXPECT_EQ(pair.client.endpoint.counters().drops(DropReason::kReceiverNotReady), 1u);
}

class SharedReceiveTest : public ServicesTest {
 protected:
  SharedReceiveTest()
      : srq(pair.server.endpoint.CreateSharedReceiveQueue(
            {.pd = kTestPd, .max_work_requests = 4, .max_sges = 2, .context = &tag})) {}
  ~SharedReceiveTest() override {
    for (QueuePair* qp : users) pair.server.endpoint.DestroyQueuePair(qp);
    pair.server.endpoint.DestroySharedReceiveQueue(std::move(srq));
  }

  // Two queue pairs for datagrams; the server's uses the shared queue.
  std::pair<QueuePair*, QueuePair*> CreateDatagramPair() {
    QueuePair* client = Create(pair.client, QpType::kUnreliableDatagram);
    QueuePair* server = Create(pair.server, QpType::kUnreliableDatagram, srq.get());
    users = {server};
    BringUpDatagram(*client, kQkey, kFirstPsn);
    BringUpDatagram(*server, kQkey, kFirstPsn);
    return {client, server};
  }
  SendWorkRequest DatagramTo(const QueuePair& server) {
    SendWorkRequest request = pair.Request(SendOpcode::kSend, 10);
    request.remote_qpn = server.qpn();
    request.remote_qkey = kQkey;
    request.address = &server_address;
    return request;
  }
  void PostShared(uint32_t length) {
    const ScatterGatherEntry sge = {pair.server.address(0), length, pair.server.key};
    ASSERT_EQ(srq->Post({.wr_id = 5, .sges = {&sge, 1}}), Status::kOk);
  }

  int tag = 0;
  const AddressVector server_address = {.destination_gid = pair.server.endpoint.config().gids[1],
                                        .destination_mac = pair.server.endpoint.config().mac,
                                        .source_gid_index = 1};
  std::unique_ptr<SharedReceiveQueue> srq;
  std::vector<QueuePair*> users;
};

// IBA 9.9.3.1 class E: a request that a torn message took from the shared queue cannot return.
TEST_F(SharedReceiveTest, TornMessageCompletesTheRequestThatItTook) {
  QueuePair* client = Create(pair.client, QpType::kUnreliableConnection);
  QueuePair* server = Create(pair.server, QpType::kUnreliableConnection, srq.get());
  users = {server};
  BringUpUnreliable(*client, pair.server, server->qpn());
  BringUpUnreliable(*server, pair.client, client->qpn());
  PostShared(4'000);
  ASSERT_EQ(client->PostSend(pair.Request(SendOpcode::kSend, 4'000)), Status::kOk);
  SendAllBut(1);
  const auto received = pair.server.Poll();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(server->state(), QpState::kReadyToSend);
}

// IBA 11.6.3.1 SRQ_LIMIT_REACHED.
TEST_F(SharedReceiveTest, LimitEventComesOnce) {
  const auto [client, server] = CreateDatagramPair();
  for (int i = 0; i < 4; ++i) PostShared(100);
  ASSERT_EQ(srq->SetLimit(3), Status::kOk);
  const SendWorkRequest request = DatagramTo(*server);
  for (int sent = 1; sent <= 4; ++sent) {
    ASSERT_EQ(client->PostSend(request), Status::kOk);
    pair.Exchange();
    const auto event = pair.server.endpoint.TakeEvent();
    EXPECT_EQ(event.has_value(), sent == 2);
    if (event) {
      EXPECT_EQ(event->type, EventType::kSrqLimitReached);
      EXPECT_EQ(event->context, &tag);
    }
  }
  EXPECT_EQ(srq->limit(), 0u);
  EXPECT_EQ(pair.server.Poll().size(), 4u);
}

// IBA 11.6.3.1 LAST_WQE_REACHED: once, whatever is posted to the queue pair in ERR afterwards.
TEST_F(SharedReceiveTest, LastWqeReachedIsRaisedOnce) {
  const auto [client, server] = CreateDatagramPair();
  const ScatterGatherEntry no_such_key = {pair.server.address(0), 100, LKey{0xdead}};
  ASSERT_EQ(srq->Post({.wr_id = 5, .sges = {&no_such_key, 1}}), Status::kOk);
  const SendWorkRequest request = DatagramTo(*server);
  ASSERT_EQ(client->PostSend(request), Status::kOk);
  pair.Exchange();
  ASSERT_EQ(server->state(), QpState::kError);
  const auto event = pair.server.endpoint.TakeEvent();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->type, EventType::kLastWqeReached);

  ASSERT_EQ(server->PostSend(request), Status::kOk);
  EXPECT_FALSE(pair.server.endpoint.TakeEvent().has_value());
}

}  // namespace
}  // namespace uroce::transport
