// Connections between ids of two processes: the events and their contents.
#include <gtest/gtest.h>

#include <cerrno>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tests/verbs_provider/rdma_cm/rdma_cm_host.h"
#include "transport/qp_attributes.h"

namespace uroce::verbs::rdma_cm {
namespace {

using Mask = transport::QpAttributeMask;

constexpr uint16_t kPort = 7'471;
constexpr uint32_t kInit = 1;
constexpr uint32_t kReadyToReceive = 2;
constexpr uint32_t kReadyToSend = 3;

template <class Parameters>
std::string_view PrivateData(const Parameters& parameters) {
  return {reinterpret_cast<const char*>(parameters.private_data), parameters.private_data_len};
}

class ConnectionsTest : public testing::Test {
 protected:
  // A server that listens at any address, and a client whose route is resolved.
  void Prepare(uint16_t space = RDMA_PS_TCP, uint32_t backlog = 0) {
    listener_ = server_.Create(space);
    ASSERT_EQ(server_.Bind(listener_, Any(kPort)), 0);
    ASSERT_EQ(server_.Listen(listener_, backlog), 0);
    client_id_ = NewClient(space);
  }
  uint32_t NewClient(uint16_t space = RDMA_PS_TCP) {
    const uint32_t id = client_.Create(space);
    EXPECT_EQ(client_.Resolve(id, Ipv4(server_, kPort)), 0);
    client_.Expect(UserEvent::kAddressResolved);
    EXPECT_EQ(client_.ResolveRoute(id), 0);
    client_.Expect(UserEvent::kRouteResolved);
    return id;
  }
  void Connect() {
    ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111, "hello")), 0);
    network_.Run();
    request_ = server_.Expect(UserEvent::kConnectRequest);
    server_id_ = request_.id;
  }
  void Establish() {
    Prepare();
    Connect();
    ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222, "welcome")), 0);
    network_.Run();
    response_ = client_.Expect(UserEvent::kConnectResponse);
    ASSERT_EQ(client_.ConfirmReady(client_id_), 0);
    network_.Run();
    established_ = server_.Expect(UserEvent::kEstablished);
  }

  Network network_;
  Host server_{network_, 1};
  Host client_{network_, 2};
  uint32_t listener_ = 0;
  uint32_t client_id_ = 0;
  uint32_t server_id_ = 0;
  rdma_ucm_event_resp request_{};
  rdma_ucm_event_resp response_{};
  rdma_ucm_event_resp established_{};
};

TEST_F(ConnectionsTest, BothEndsReceiveTheParametersOfThePeer) {
  Establish();
  const rdma_ucm_conn_param& asked = request_.param.conn;
  EXPECT_EQ(request_.uid, 1'001u);  // of the listener
  EXPECT_NE(request_.id, listener_);
  EXPECT_EQ(PrivateData(asked).substr(0, 5), "hello");
  EXPECT_EQ(asked.private_data_len, 56);
  EXPECT_EQ(asked.qp_num, 0x111u);
  EXPECT_EQ(asked.responder_resources, 3);  // the peer's outstanding requests
  EXPECT_EQ(asked.initiator_depth, 4);
  EXPECT_EQ(asked.retry_count, 6);
  EXPECT_EQ(asked.rnr_retry_count, 5);
  EXPECT_EQ(asked.flow_control, 1);
  const rdma_ucm_conn_param& answered = response_.param.conn;
  EXPECT_EQ(response_.id, client_id_);
  EXPECT_EQ(PrivateData(answered).substr(0, 7), "welcome");
  EXPECT_EQ(answered.private_data_len, 196);
  EXPECT_EQ(answered.qp_num, 0x222u);
  EXPECT_EQ(answered.responder_resources, 3);
  EXPECT_EQ(answered.initiator_depth, 4);
  EXPECT_EQ(established_.id, server_id_);
  EXPECT_EQ(established_.uid, 1'002u);  // of the accept
  server_.ExpectNoEvent();
  client_.ExpectNoEvent();
}

TEST_F(ConnectionsTest, RequestKnowsBothAddresses) {
  Prepare();
  Connect();
  const auto answer = server_.Query(server_id_);
  const auto own = AddressIn<sockaddr_in>(answer.src_addr);
  const auto peer = AddressIn<sockaddr_in>(answer.dst_addr);
  EXPECT_EQ(own.sin_addr.s_addr, htonl(10 << 24 | 1));
  EXPECT_EQ(own.sin_port, htons(kPort));
  EXPECT_EQ(peer.sin_addr.s_addr, htonl(10 << 24 | 2));
  EXPECT_EQ(peer.sin_port, AddressIn<sockaddr_in>(client_.Query(client_id_).src_addr).sin_port);
  EXPECT_NE(answer.node_guid, 0u);
}

TEST_F(ConnectionsTest, QueuePairsFitTogether) {
  Prepare();
  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(client_.InitQp(client_id_, kInit, attributes), 0);
  EXPECT_EQ(attributes.qp_attr_mask,
            Mask::kState | Mask::kAccessFlags | Mask::kPkeyIndex | Mask::kPort);
  Connect();
  ib_uverbs_qp_attr receiving{};
  ib_uverbs_qp_attr sending{};
  ASSERT_EQ(server_.InitQp(server_id_, kReadyToReceive, receiving), 0);
  ASSERT_EQ(server_.InitQp(server_id_, kReadyToSend, sending), 0);
  EXPECT_EQ(receiving.dest_qp_num, 0x111u);
  EXPECT_EQ(receiving.path_mtu, 5u);
  EXPECT_EQ(receiving.ah_attr.is_global, 1);
  EXPECT_EQ(0, std::memcmp(receiving.ah_attr.grh.dgid, client_.gid().bytes.data(), 16));
  EXPECT_EQ(receiving.max_dest_rd_atomic, 3);
  ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222)), 0);
  network_.Run();
  client_.Expect(UserEvent::kConnectResponse);
  ib_uverbs_qp_attr client_receiving{};
  ib_uverbs_qp_attr client_sending{};
  ASSERT_EQ(client_.InitQp(client_id_, kReadyToReceive, client_receiving), 0);
  ASSERT_EQ(client_.InitQp(client_id_, kReadyToSend, client_sending), 0);
  EXPECT_EQ(client_receiving.dest_qp_num, 0x222u);
  EXPECT_EQ(client_receiving.rq_psn, sending.sq_psn);
  EXPECT_EQ(client_sending.sq_psn, receiving.rq_psn);
  EXPECT_EQ(client_sending.retry_cnt, 6);
  EXPECT_EQ(client_sending.timeout, 17);  // there and back, and the delay of the ACK
}

// An attacker who does not see the packets cannot guess the next PSN.
TEST_F(ConnectionsTest, EachConnectionStartsAtARandomPsn) {
  constexpr uint32_t kConnections = 8;
  Prepare();
  std::set<uint32_t> psns;
  for (uint32_t i = 0; i < kConnections; ++i) {
    client_id_ = NewClient();
    ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111 + i)), 0);
    network_.Run();
    server_id_ = server_.Expect(UserEvent::kConnectRequest).id;
    ib_uverbs_qp_attr client{};
    ib_uverbs_qp_attr server{};
    ASSERT_EQ(server_.InitQp(server_id_, kReadyToReceive, server), 0);
    psns.insert(server.rq_psn);
    ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222 + i)), 0);
    network_.Run();
    client_.Expect(UserEvent::kConnectResponse);
    ASSERT_EQ(client_.InitQp(client_id_, kReadyToReceive, client), 0);
    psns.insert(client.rq_psn);
    ASSERT_EQ(client_.ConfirmReady(client_id_), 0);
    network_.Run();
    server_.Expect(UserEvent::kEstablished);
  }
  ASSERT_EQ(psns.size(), 2 * kConnections);
  uint32_t common_bits_of_neighbours = 0xff'ffff;
  for (auto psn = psns.begin(); std::next(psn) != psns.end(); ++psn) {
    common_bits_of_neighbours &= ~(*psn ^ *std::next(psn));
  }
  EXPECT_EQ(common_bits_of_neighbours, 0u) << "a bit that never changes";
  EXPECT_GT(*psns.rbegin() - *psns.begin(), 0x40'0000u);
}

TEST_F(ConnectionsTest, AckTimeoutIsTheOneThatWasSet) {
  listener_ = server_.Create();
  ASSERT_EQ(server_.Bind(listener_, Any(kPort)), 0);
  ASSERT_EQ(server_.Listen(listener_), 0);
  client_id_ = client_.Create();
  ASSERT_EQ(client_.SetAckTimeout(client_id_, 12), 0);
  ASSERT_EQ(client_.Resolve(client_id_, Ipv4(server_, kPort)), 0);
  client_.Expect(UserEvent::kAddressResolved);
  ASSERT_EQ(client_.ResolveRoute(client_id_), 0);
  client_.Expect(UserEvent::kRouteResolved);
  Connect();
  ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222)), 0);
  network_.Run();
  client_.Expect(UserEvent::kConnectResponse);
  ib_uverbs_qp_attr sending{};
  ASSERT_EQ(client_.InitQp(client_id_, kReadyToSend, sending), 0);
  EXPECT_EQ(sending.timeout, 12);
}

// As rdma_set_ack_timeout of Linux: RC and the initiator of XRC.
TEST_F(ConnectionsTest, AckTimeoutIsForThoseThatWaitForAcks) {
  constexpr std::pair<uint8_t, int> kTypes[] = {
      {2, 0}, {3, EINVAL}, {4, EINVAL}, {9, 0}, {10, EINVAL}};
  for (const auto& [qp_type, error] : kTypes) {
    EXPECT_EQ(client_.SetAckTimeout(client_.Create(RDMA_PS_IB, qp_type), 12), error)
        << int{qp_type};
  }
}

TEST_F(ConnectionsTest, DisconnectReachesBothEnds) {
  Establish();
  ASSERT_EQ(client_.Disconnect(client_id_), 0);
  network_.Run();
  EXPECT_EQ(server_.Expect(UserEvent::kDisconnected).status, 0u);
  client_.ExpectNoEvent();  // the peer has not answered yet
  ASSERT_EQ(server_.Disconnect(server_id_), 0);
  network_.Run();
  EXPECT_EQ(client_.Expect(UserEvent::kDisconnected).status, 0u);
  network_.Advance(transport::Milliseconds(60'000));
  server_.Expect(UserEvent::kTimewaitExit);
  client_.Expect(UserEvent::kTimewaitExit);
}

TEST_F(ConnectionsTest, DestroyedIdDisconnectsItsPeer) {
  Establish();
  uint32_t events_reported = 0;
  ASSERT_EQ(server_.Destroy(server_id_, &events_reported), 0);
  EXPECT_EQ(events_reported, 1u);  // "established"; the request counts for the listener
  network_.Run();
  client_.Expect(UserEvent::kDisconnected);
}

TEST_F(ConnectionsTest, ClosedChannelDisconnectsItsPeers) {
  Establish();
  server_.agent().CloseAll();
  network_.Run();
  client_.Expect(UserEvent::kDisconnected);
  EXPECT_EQ(server_.agent().id_count(), 0u);
  EXPECT_TRUE(network_.services.empty());
}

TEST_F(ConnectionsTest, RejectCarriesStatusAndPrivateData) {
  Prepare();
  Connect();
  rdma_ucm_reject command{};
  command.id = server_id_;
  command.reason = 4;
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_REJECT, command), EINVAL);
  command.reason = 0;
  command.private_data_len = 2;
  command.private_data[0] = 'n';
  command.private_data[1] = 'o';
  ASSERT_EQ(server_.Write(RDMA_USER_CM_CMD_REJECT, command), 0);
  network_.Run();
  const auto event = client_.Expect(UserEvent::kRejected);
  EXPECT_EQ(event.status, 28u);  // IB_CM_REJ_CONSUMER_DEFINED
  EXPECT_EQ(PrivateData(event.param.conn).substr(0, 2), "no");
  EXPECT_EQ(event.param.conn.private_data_len, 148);
  ASSERT_EQ(client_.Destroy(client_id_), 0);
}

TEST_F(ConnectionsTest, WithoutAListenerTheRequestIsRejected) {
  Prepare();
  ASSERT_EQ(server_.Destroy(listener_), 0);
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  network_.Run();
  EXPECT_EQ(client_.Expect(UserEvent::kRejected).status, 8u);  // IB_CM_REJ_INVALID_SERVICE_ID
}

TEST_F(ConnectionsTest, ListenerAtAnotherAddressDoesNotGetTheRequest) {
  listener_ = server_.Create();
  ASSERT_EQ(server_.Bind(listener_, Ipv4(INADDR_LOOPBACK, kPort)), 0);
  ASSERT_EQ(server_.Listen(listener_), 0);
  ASSERT_EQ(client_.Connect(NewClient(), Host::Parameters(0x111)), 0);
  network_.Run();
  EXPECT_EQ(client_.Expect(UserEvent::kRejected).status, 8u);
  server_.ExpectNoEvent();
}

TEST_F(ConnectionsTest, SilentPeerIsUnreachable) {
  Prepare();
  network_.hosts.erase(network_.hosts.begin());  // unplugs the server
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  for (int retry = 0; retry < 16; ++retry) network_.Advance(transport::Milliseconds(5'000));
  EXPECT_EQ(client_.Expect(UserEvent::kUnreachable).status, static_cast<uint32_t>(-ETIMEDOUT));
}

TEST_F(ConnectionsTest, RequestsBeyondTheBacklogComeAgain) {
  Prepare(RDMA_PS_TCP, 1);
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  const uint32_t second = NewClient();
  ASSERT_EQ(client_.Connect(second, Host::Parameters(0x112)), 0);
  network_.Run();
  EXPECT_EQ(server_.Expect(UserEvent::kConnectRequest).param.conn.qp_num, 0x111u);
  server_.ExpectNoEvent();
  network_.Advance(transport::Milliseconds(10'000));
  EXPECT_EQ(server_.Expect(UserEvent::kConnectRequest).param.conn.qp_num, 0x112u);
  client_.ExpectNoEvent();
}

TEST_F(ConnectionsTest, RequestsThatWereNotFetchedAreRejectedWithTheListener) {
  Prepare();
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  network_.Run();
  ASSERT_EQ(server_.Destroy(listener_), 0);
  EXPECT_EQ(server_.tokens, 0);
  network_.Run();
  client_.Expect(UserEvent::kRejected);
}

TEST_F(ConnectionsTest, PrivateDataHasItsLimits) {
  Prepare();
  EXPECT_EQ(client_.Connect(client_id_, Host::Parameters(0x111, std::string(57, 'x'))), EINVAL);
  EXPECT_EQ(client_.Connect(client_id_, Host::Parameters(0x111, std::string(56, 'x'))), 0);
  network_.Run();
  const auto request = server_.Expect(UserEvent::kConnectRequest);
  EXPECT_EQ(PrivateData(request.param.conn), std::string(56, 'x'));
  EXPECT_EQ(server_.Accept(request.id, Host::Parameters(0x222, std::string(197, 'y'))), EINVAL);
}

TEST_F(ConnectionsTest, ConnectNeedsValidParametersAndAFreshId) {
  Prepare();
  rdma_ucm_conn_param invalid = Host::Parameters(0x111);
  invalid.valid = 0;
  EXPECT_EQ(client_.Connect(client_id_, invalid), EINVAL);
  EXPECT_EQ(client_.Disconnect(client_id_), EINVAL);
  Connect();
  EXPECT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), EINVAL);
  EXPECT_EQ(server_.Accept(listener_, Host::Parameters(0x111)), EINVAL);
}

TEST_F(ConnectionsTest, DataBeforeTheRtuEstablishes) {
  Prepare();
  Connect();
  ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222)), 0);
  network_.Run();
  constexpr uint32_t kCommunicationEstablished = 4;
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{server_id_, 5}), EINVAL);
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_NOTIFY,
                          rdma_ucm_notify{server_id_, kCommunicationEstablished}),
            0);
  network_.Run();
  server_.Expect(UserEvent::kEstablished);
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_NOTIFY,
                          rdma_ucm_notify{server_id_, kCommunicationEstablished}),
            EISCONN);
  server_.ExpectNoEvent();
  EXPECT_EQ(
      server_.Write(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{listener_, kCommunicationEstablished}),
      EINVAL);
}

TEST_F(ConnectionsTest, PathOfAnEstablishedConnectionMayMigrate) {
  constexpr uint32_t kPathMigrated = 6;
  Prepare();
  Connect();
  const rdma_ucm_notify notify{server_id_, kPathMigrated};
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_NOTIFY, notify), EINVAL);
  ASSERT_EQ(server_.Accept(server_id_, Host::Parameters(0x222)), 0);
  network_.Run();
  client_.Expect(UserEvent::kConnectResponse);
  ASSERT_EQ(client_.ConfirmReady(client_id_), 0);
  network_.Run();
  server_.Expect(UserEvent::kEstablished);
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_NOTIFY, notify), 0);
}

// A program that names no backlog, and is slow.
TEST_F(ConnectionsTest, ThousandsOfRequestsOfOneHostWaitToBeFetched) {
  constexpr uint32_t kRequests = 2'000;
  Prepare();
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  for (uint32_t i = 1; i < kRequests; ++i) {
    ASSERT_EQ(client_.Connect(NewClient(), Host::Parameters(0x111 + i)), 0);
    network_.Run();
  }
  for (uint32_t i = 0; i < kRequests; ++i) server_.Expect(UserEvent::kConnectRequest);
}

TEST_F(ConnectionsTest, MigratedIdTakesItsEventsAlong) {
  Establish();
  ASSERT_EQ(client_.Disconnect(client_id_), 0);
  network_.Run();
  int tokens = 0;
  Channel* other = server_.agent().OpenChannel([&](int delta) { tokens += delta; });
  rdma_ucm_migrate_resp answer{};
  rdma_ucm_migrate_id command{};
  command.response = reinterpret_cast<uintptr_t>(&answer);
  command.id = server_id_;
  EXPECT_EQ(server_.Write(RDMA_USER_CM_CMD_MIGRATE_ID, command, sizeof answer, other), ENOENT);
  server_.migrate_from = &server_.channel();
  ASSERT_EQ(server_.Write(RDMA_USER_CM_CMD_MIGRATE_ID, command, sizeof answer, other), 0);
  EXPECT_EQ(answer.events_reported, 1u);
  EXPECT_EQ(server_.tokens, 0);
  EXPECT_EQ(tokens, 1);
  rdma_ucm_event_resp event{};
  ASSERT_EQ(server_.GetEvent(event, other), 0);
  EXPECT_EQ(event.event, static_cast<uint32_t>(UserEvent::kDisconnected));
  EXPECT_EQ(server_.Disconnect(server_id_), EINVAL);  // by the old channel
}

TEST_F(ConnectionsTest, DatagramServiceIsResolved) {
  Prepare(RDMA_PS_UDP);
  ib_uverbs_qp_attr attributes{};
  ASSERT_EQ(client_.InitQp(client_id_, kInit, attributes), 0);
  EXPECT_EQ(attributes.qp_attr_mask, Mask::kState | Mask::kPkeyIndex | Mask::kPort | Mask::kQkey);
  EXPECT_EQ(attributes.qkey, 0x01234567u);
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111, "who")), 0);
  network_.Run();
  const auto request = server_.Expect(UserEvent::kConnectRequest);
  EXPECT_EQ(PrivateData(request.param.ud).substr(0, 3), "who");
  EXPECT_EQ(request.param.ud.private_data_len, 180);
  ASSERT_EQ(server_.Accept(request.id, Host::Parameters(0x222, "me")), 0);
  network_.Run();
  const auto event = client_.Expect(UserEvent::kEstablished);
  EXPECT_EQ(event.param.ud.qp_num, 0x222u);
  EXPECT_EQ(event.param.ud.qkey, 0x01234567u);
  EXPECT_EQ(PrivateData(event.param.ud).substr(0, 2), "me");
  EXPECT_EQ(0, std::memcmp(event.param.ud.ah_attr.grh.dgid, server_.gid().bytes.data(), 16));
  EXPECT_EQ(event.param.ud.ah_attr.grh.sgid_index, 1);
}

TEST_F(ConnectionsTest, RejectedDatagramServiceIsUnreachable) {
  Prepare(RDMA_PS_UDP);
  ASSERT_EQ(client_.Connect(client_id_, Host::Parameters(0x111)), 0);
  network_.Run();
  rdma_ucm_reject command{};
  command.id = server_.Expect(UserEvent::kConnectRequest).id;
  ASSERT_EQ(server_.Write(RDMA_USER_CM_CMD_REJECT, command), 0);
  network_.Run();
  EXPECT_EQ(client_.Expect(UserEvent::kUnreachable).status, 2u);  // IB_SIDR_REJECT
}

class MulticastTest : public testing::Test {
 protected:
  Network network_;
  Host host_{network_, 1};
};

TEST_F(MulticastTest, GroupIsJoinedAndLeft) {
  const uint32_t id = host_.Create(RDMA_PS_UDP);
  ASSERT_EQ(host_.Bind(id, Ipv4(host_, 0)), 0);
  uint32_t member = 99;
  ASSERT_EQ(host_.Join(id, member), 0);
  const auto event = host_.Expect(UserEvent::kMulticastJoin);
  EXPECT_EQ(event.uid, 77u);
  EXPECT_EQ(event.id, member);
  const rdma_ucm_ud_param& ud = event.param.ud;
  EXPECT_EQ(ud.qp_num, 0xffffffu);
  EXPECT_EQ(ud.qkey, 0x01234567u);
  const Gid group = Gid::FromIpv4({0xef, 1, 2, 3});
  EXPECT_EQ(0, std::memcmp(ud.ah_attr.grh.dgid, group.bytes.data(), 16));
  EXPECT_EQ(ud.ah_attr.grh.sgid_index, 1);
  uint32_t events_reported = 0;
  ASSERT_EQ(host_.Leave(member, events_reported), 0);
  EXPECT_EQ(events_reported, 1u);
  EXPECT_EQ(host_.Leave(member, events_reported), ENOENT);
  uint32_t id_events = 0;
  ASSERT_EQ(host_.Destroy(id, &id_events), 0);
  EXPECT_EQ(id_events, 1u);
}

TEST_F(MulticastTest, UnreadJoinIsWithdrawn) {
  const uint32_t id = host_.Create(RDMA_PS_UDP);
  ASSERT_EQ(host_.Bind(id, Ipv4(host_, 0)), 0);
  uint32_t member = 99;
  ASSERT_EQ(host_.Join(id, member), 0);
  ASSERT_EQ(host_.Destroy(id), 0);
  host_.ExpectNoEvent();
}

TEST_F(MulticastTest, OnlyDatagramsOfADeviceMayJoin) {
  uint32_t member = 0;
  const uint32_t unbound = host_.Create(RDMA_PS_UDP);
  EXPECT_EQ(host_.Join(unbound, member), EINVAL);
  const uint32_t connected = host_.Create(RDMA_PS_TCP);
  ASSERT_EQ(host_.Bind(connected, Ipv4(host_, 0)), 0);
  EXPECT_EQ(host_.Join(connected, member), EINVAL);
  const uint32_t id = host_.Create(RDMA_PS_UDP);
  ASSERT_EQ(host_.Bind(id, Ipv4(host_, 0)), 0);
  EXPECT_EQ(host_.Join(id, member, 2), EINVAL);
}

}  // namespace
}  // namespace uroce::verbs::rdma_cm
