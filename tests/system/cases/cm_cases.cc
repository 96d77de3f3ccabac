// rdma_cm as servers, storage targets and beginners use it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "tests/system/cases/cm_objects.h"
#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kTimeoutMs = 2'000;

// A listener and a client in one process.
class CmCases : public ::testing::Test {
 protected:
  uint16_t port() { return SourcePort(listener.get()); }
  // The id of the next request, which the server has not answered yet.
  CmId Requested() { return CmId(servers.Expect(RDMA_CM_EVENT_CONNECT_REQUEST).id); }
  int ResolveFrom(rdma_cm_id* id, sockaddr_in source, sockaddr_in destination) {
    errno = 0;
    return rdma_resolve_addr(id, Generic(&source), Generic(&destination), kTimeoutMs);
  }

  EventChannel servers;
  EventChannel clients;
  CmId listener = servers.Listen();
};

class ConnectedCmCases : public CmCases {
 protected:
  void SetUp() override {
    clients.Resolve(client.get(), port());
    CreateQueuePair(client.get());
    rdma_conn_param parameters = Parameters();
    ASSERT_EQ(rdma_connect(client.get(), &parameters), 0);
    server = Requested();
    CreateQueuePair(server.get());
    ASSERT_EQ(rdma_accept(server.get(), &parameters), 0);
    clients.Expect(RDMA_CM_EVENT_ESTABLISHED);
    servers.Expect(RDMA_CM_EVENT_ESTABLISHED);
  }

  CmId client = clients.CreateId();
  CmId server;
};

// libfabric PR #5228, ldms PR #556, SPDK #1704: both ends hear of the disconnection once and of the
// end of TIMEWAIT once, also if the queue pair is gone by then. To disconnect again is no error.
TEST_F(ConnectedCmCases, DisconnectAndTimewaitExitReachBothEnds) {
  ASSERT_EQ(rdma_disconnect(client.get()), 0);
  CmEvent event = servers.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(event.id, server.get());
  EXPECT_EQ(rdma_disconnect(server.get()), 0);
  event = clients.Expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(event.status, 0);
  EXPECT_EQ(rdma_disconnect(client.get()), 0);
  rdma_destroy_qp(server.get());
  EXPECT_EQ(servers.Expect(RDMA_CM_EVENT_TIMEWAIT_EXIT).id, server.get());
  EXPECT_EQ(clients.Expect(RDMA_CM_EVENT_TIMEWAIT_EXIT).id, client.get());
  EXPECT_EQ(Query(client->qp).qp_state, IBV_QPS_ERR);
}

// A queue pair of the program's own, which librdmacm knows nothing of (rdma-core #486; UCX connects
// so). The attributes for each state come from rdma_init_qp_attr.
class OwnQueuePair {
 public:
  explicit OwnQueuePair(rdma_cm_id* id)
      : id_(id),
        pd_(ibv_alloc_pd(id->verbs)),
        cq_(ibv_create_cq(id->verbs, 64, nullptr, nullptr, 0)),
        mr_(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), Host::kAllAccess)) {
    ibv_qp_init_attr attr = RcAttributes(cq_.get(), cq_.get());
    qp_.reset(ibv_create_qp(pd_.get(), &attr));
    EXPECT_NE(qp_, nullptr);
    To(IBV_QPS_INIT);
  }

  void To(ibv_qp_state state) {
    ibv_qp_attr attr = {};
    attr.qp_state = state;
    int mask = 0;
    ASSERT_EQ(rdma_init_qp_attr(id_, &attr, &mask), 0) << state;
    ASSERT_EQ(ibv_modify_qp(qp_.get(), &attr, mask), 0) << state;
  }
  // Writes to the memory of `peer`.
  ibv_wc_status WriteTo(const OwnQueuePair& peer) {
    SendRequest write(IBV_WR_RDMA_WRITE, Piece());
    const ibv_sge there = peer.Piece();
    EXPECT_EQ(write.Remote(there.addr, peer.mr_->rkey).Post(qp_.get()), 0);
    return WaitForCompletion(cq_.get()).status;
  }
  ibv_sge Piece() const {
    return {reinterpret_cast<uint64_t>(memory_.data()), uint32_t{64}, mr_->lkey};
  }
  ibv_qp* qp() const { return qp_.get(); }
  ibv_cq* cq() const { return cq_.get(); }

 private:
  rdma_cm_id* id_;
  std::array<uint8_t, 64> memory_{};
  Pd pd_;
  Cq cq_;
  Mr mr_;
  Qp qp_;
};

TEST_F(CmCases, QueuePairOfTheProgramIsConnectedByEstablish) {
  const CmId client = clients.CreateId();
  clients.Resolve(client.get(), port());
  OwnQueuePair client_qp(client.get());
  rdma_conn_param parameters = Parameters();
  parameters.qp_num = client_qp.qp()->qp_num;
  parameters.responder_resources = 3;
  parameters.initiator_depth = 2;
  parameters.retry_count = 5;
  parameters.rnr_retry_count = 6;
  ASSERT_EQ(rdma_connect(client.get(), &parameters), 0);

  const CmEvent request = servers.Expect(RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(request.qp_num, client_qp.qp()->qp_num);
  const CmId server(request.id);
  OwnQueuePair server_qp(server.get());
  server_qp.To(IBV_QPS_RTR);
  server_qp.To(IBV_QPS_RTS);
  parameters.qp_num = server_qp.qp()->qp_num;
  parameters.responder_resources = 2;
  parameters.initiator_depth = 3;
  ASSERT_EQ(rdma_accept(server.get(), &parameters), 0);

  EXPECT_EQ(clients.Expect(RDMA_CM_EVENT_CONNECT_RESPONSE).qp_num, server_qp.qp()->qp_num);
  client_qp.To(IBV_QPS_RTR);
  client_qp.To(IBV_QPS_RTS);
  EXPECT_TRUE(servers.IsQuiet()) << "the client has not established it yet";
  ASSERT_EQ(rdma_establish(client.get()), 0);
  servers.Expect(RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(client_qp.WriteTo(server_qp), IBV_WC_SUCCESS);
  const ibv_qp_attr attr = Query(client_qp.qp());
  EXPECT_EQ(attr.retry_cnt, 5);
  EXPECT_EQ(attr.rnr_retry, 6);
  EXPECT_EQ(attr.max_rd_atomic, 2);
  EXPECT_EQ(attr.max_dest_rd_atomic, 3);

  // The disconnection leaves the queue pair as it is: librdmacm does not know it.
  ASSERT_EQ(PostReceive(client_qp.qp(), client_qp.Piece(), 7), 0);
  ASSERT_EQ(rdma_disconnect(client.get()), 0);
  servers.Expect(RDMA_CM_EVENT_DISCONNECTED);
  ASSERT_EQ(rdma_disconnect(server.get()), 0);
  clients.Expect(RDMA_CM_EVENT_DISCONNECTED);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(client_qp.cq(), 1, &wc), 0);
  EXPECT_EQ(Query(client_qp.qp()).qp_state, IBV_QPS_RTS);
  ASSERT_EQ(Modify(client_qp.qp(), IBV_QPS_ERR), 0);
  wc = WaitForCompletion(client_qp.cq());
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(wc.wr_id, 7u);
}

// SPDK #2604, libfabric #10880: programs choose the source port of a connection.
class SourcePortCases : public CmCases {
 protected:
  // A port that was free a moment ago.
  uint16_t FreePort() { return SourcePort(servers.Listen().get()); }
  sockaddr_in destination() { return Ipv4("127.0.0.1", port()); }
};

TEST_F(SourcePortCases, ChosenPortIsSeenAtBothEnds) {
  const uint16_t chosen = FreePort();
  const CmId client = clients.CreateId();
  ASSERT_EQ(ResolveFrom(client.get(), Ipv4("127.0.0.1", chosen), destination()), 0);
  clients.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(SourcePort(client.get()), chosen);
  ASSERT_EQ(rdma_resolve_route(client.get(), kTimeoutMs), 0);
  clients.Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  CreateQueuePair(client.get());
  rdma_conn_param parameters = Parameters();
  ASSERT_EQ(rdma_connect(client.get(), &parameters), 0);
  const CmId server = Requested();
  EXPECT_EQ(ntohs(rdma_get_dst_port(server.get())), chosen);
  EXPECT_EQ(SourcePort(server.get()), port());
}

TEST_F(SourcePortCases, PortInUseIsRefused) {
  const sockaddr_in chosen = Ipv4("127.0.0.1", FreePort());
  const CmId first = clients.CreateId();
  ASSERT_EQ(ResolveFrom(first.get(), chosen, destination()), 0);
  const CmId second = clients.CreateId();
  EXPECT_EQ(ResolveFrom(second.get(), chosen, destination()), -1);
  EXPECT_TRUE(errno == EADDRNOTAVAIL || errno == EADDRINUSE) << errno;
}

TEST_F(SourcePortCases, PortZeroIsAnEphemeralOne) {
  const CmId client = clients.CreateId();
  ASSERT_EQ(ResolveFrom(client.get(), Ipv4("127.0.0.1", 0), destination()), 0);
  clients.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_NE(SourcePort(client.get()), 0);
}

TEST_F(SourcePortCases, AddressThatIsLeftOpenBecomesTheRoutes) {
  const uint16_t chosen = FreePort();
  const CmId client = clients.CreateId();
  ASSERT_EQ(ResolveFrom(client.get(), Ipv4("0.0.0.0", chosen), destination()), 0);
  clients.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(SourcePort(client.get()), chosen);
  const auto* const local = reinterpret_cast<sockaddr_in*>(rdma_get_local_addr(client.get()));
  EXPECT_EQ(local->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

TEST_F(SourcePortCases, AddressOfAnotherHostIsRefused) {
  const CmId client = clients.CreateId();
  EXPECT_EQ(ResolveFrom(client.get(), Ipv4("203.0.113.77", 0), destination()), -1);
  EXPECT_TRUE(errno == ENODEV || errno == EADDRNOTAVAIL) << errno;
}

// The kernel's cma_check_port has EADDRNOTAVAIL where one of the two addresses is the wildcard.
TEST_F(SourcePortCases, PortOfAListenerCannotBeBound) {
  const CmId other = servers.CreateId();
  sockaddr_in taken = Ipv4("0.0.0.0", port());
  errno = 0;
  EXPECT_EQ(rdma_bind_addr(other.get(), Generic(&taken)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST_F(SourcePortCases, UnboundIdListensOnAPortOfItsOwn) {
  const CmId unbound = servers.CreateId();
  EXPECT_EQ(rdma_listen(unbound.get(), 4), 0);
  EXPECT_NE(SourcePort(unbound.get()), 0);
}

// nbs #4489, SPDK #2356: calls in the wrong order are EINVAL, and the id can be used on.
TEST_F(CmCases, CallsInTheWrongOrderAreInvalidAndLeaveTheIdUsable) {
  listener = servers.Listen("127.0.0.1");  // librdmacm looks at the device of a listener's id
  const CmId client = clients.CreateId();
  rdma_conn_param parameters = Parameters();
  sockaddr_in address = Ipv4("127.0.0.1", port());
  const auto expect_invalid = [](int result) {
    EXPECT_EQ(result, -1);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
  };
  ASSERT_EQ(rdma_resolve_addr(client.get(), nullptr, Generic(&address), kTimeoutMs), 0);
  clients.Expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  expect_invalid(rdma_connect(client.get(), &parameters));
  ASSERT_EQ(rdma_resolve_route(client.get(), kTimeoutMs), 0);
  clients.Expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  expect_invalid(rdma_resolve_addr(client.get(), nullptr, Generic(&address), kTimeoutMs));
  expect_invalid(rdma_listen(client.get(), 1));
  expect_invalid(rdma_accept(listener.get(), &parameters));
  expect_invalid(rdma_disconnect(listener.get()));
  CreateQueuePair(client.get());
  ASSERT_EQ(rdma_connect(client.get(), &parameters), 0);
  EXPECT_NE(Requested(), nullptr);
}

// rdma_getaddrinfo and rdma_create_ep, as tutorials have them (librdmacm #9, libfabric #229 and
// #1362, ADIOS2 #1728, Collage #188).
using AddressInfo = std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)>;
using Endpoint = std::unique_ptr<rdma_cm_id, decltype(&rdma_destroy_ep)>;

AddressInfo Lookup(const char* node, const char* service, int flags) {
  rdma_addrinfo hints = {};
  hints.ai_flags = flags;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* result = nullptr;
  if (rdma_getaddrinfo(node, service, &hints, &result) != 0) result = nullptr;
  return {result, rdma_freeaddrinfo};
}

Endpoint CreateEndpoint(rdma_addrinfo* address) {
  ibv_qp_init_attr attr = {};
  attr.cap = {.max_send_wr = 4,
              .max_recv_wr = 4,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 16};
  attr.sq_sig_all = 1;
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_ep(&id, address, nullptr, &attr), 0) << std::strerror(errno);
  return {id, rdma_destroy_ep};
}

TEST(EndpointCases, NamesThatCannotBeResolvedAreErrors) {
  EXPECT_EQ(Lookup("localhost", "7471", RAI_NUMERICHOST), nullptr);
  EXPECT_EQ(Lookup("no-such-host.invalid", "7471", 0), nullptr);
}

// A message of an endpoint: the buffer is its first half, its answer comes into the second.
struct Mailbox {
  explicit Mailbox(rdma_cm_id* id) : mr(rdma_reg_msgs(id, text.data(), text.size())) {
    EXPECT_EQ(rdma_post_recv(id, nullptr, text.data() + 32, 32, mr.get()), 0);
  }
  void Send(rdma_cm_id* id) {
    ASSERT_EQ(rdma_post_send(id, nullptr, text.data(), 8, mr.get(), IBV_SEND_INLINE), 0);
    ibv_wc wc;
    EXPECT_EQ(rdma_get_send_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  }
  std::string Receive(rdma_cm_id* id) {
    ibv_wc wc;
    EXPECT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    return text.data() + 32;
  }

  std::array<char, 64> text{};
  Mr mr;
};

void Serve(rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_get_request(listener, &id), 0) << std::strerror(errno);
  {
    Mailbox mailbox(id);
    EXPECT_EQ(rdma_accept(id, nullptr), 0) << "without parameters";
    EXPECT_EQ(mailbox.Receive(id), "hello");
    std::strcpy(mailbox.text.data(), "welcome");
    mailbox.Send(id);
    rdma_disconnect(id);
  }
  rdma_destroy_ep(id);
}

TEST(EndpointCases, ServiceWithoutANodeListensAndAnswers) {
  Endpoint listener(nullptr, rdma_destroy_ep);
  std::string service;
  {
    EventChannel ports;
    service = std::to_string(SourcePort(ports.Listen().get()));
  }
  const AddressInfo passive = Lookup(nullptr, service.c_str(), RAI_PASSIVE);
  ASSERT_NE(passive, nullptr);
  listener = CreateEndpoint(passive.get());
  ASSERT_EQ(rdma_listen(listener.get(), 1), 0);
  std::thread server(Serve, listener.get());

  const AddressInfo active = Lookup("localhost", service.c_str(), 0);
  ASSERT_NE(active, nullptr);
  {
    const Endpoint client = CreateEndpoint(active.get());
    Mailbox mailbox(client.get());
    ASSERT_EQ(rdma_connect(client.get(), nullptr), 0) << std::strerror(errno);
    std::strcpy(mailbox.text.data(), "hello");
    mailbox.Send(client.get());
    EXPECT_EQ(mailbox.Receive(client.get()), "welcome");
    rdma_disconnect(client.get());
  }
  server.join();
  listener.reset();

  // Synchronous calls give the event's error.
  const Endpoint refused = CreateEndpoint(active.get());
  errno = 0;
  EXPECT_EQ(rdma_connect(refused.get(), nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
}

}  // namespace
}  // namespace uroce::verbs::testing
