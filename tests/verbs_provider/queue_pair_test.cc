// Queue pairs: creation, the state machine, ibv_query_qp, and posting errors.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <bit>
#include <cerrno>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

class QueuePairTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cq = host.CreateCq(64);
    ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 1, &gid), 0);
  }

  Qp Create() {
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    Qp qp(ibv_create_qp(host.pd.get(), &attr));
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  // The errno of a creation that fails.
  int Refusal(ibv_qp_init_attr attr) {
    errno = 0;
    const Qp qp(ibv_create_qp(host.pd.get(), &attr));
    return qp == nullptr ? errno : 0;
  }

  Host host;
  Cq cq;
  ibv_gid gid = {};
};

// A value outside the enum, as a C program can pass it.
template <class Enum>
Enum OutOfRange(int value) {
  static_assert(sizeof(Enum) == sizeof value);
  return std::bit_cast<Enum>(value);
}

TEST_F(QueuePairTest, GrantedCapabilitiesAreWrittenBackAndReported) {
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  attr.sq_sig_all = 1;
  attr.qp_context = this;
  const ibv_qp_cap wanted = attr.cap;
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(attr.cap.max_send_wr, wanted.max_send_wr);
  EXPECT_GE(attr.cap.max_inline_data, wanted.max_inline_data);
  EXPECT_GE(attr.cap.max_inline_data, 256u);  // programs rely on it, whatever they ask for
  EXPECT_EQ(qp->state, IBV_QPS_RESET);
  EXPECT_EQ(qp->qp_type, IBV_QPT_RC);
  EXPECT_GT(qp->qp_num, 1u);

  ibv_qp_attr queried;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &queried, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(queried.cap.max_send_wr, attr.cap.max_send_wr);
  EXPECT_EQ(queried.cap.max_recv_sge, attr.cap.max_recv_sge);
  EXPECT_EQ(init.cap.max_inline_data, attr.cap.max_inline_data);
  EXPECT_EQ(init.sq_sig_all, 1);
  EXPECT_EQ(init.qp_context, this);
  EXPECT_EQ(init.send_cq, cq.get());
  EXPECT_EQ(init.recv_cq, cq.get());
  EXPECT_EQ(init.srq, nullptr);
  EXPECT_EQ(init.qp_type, IBV_QPT_RC);
}

TEST_F(QueuePairTest, CapabilitiesBeyondTheDeviceAreInvalid) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
  const ibv_qp_init_attr good = RcAttributes(cq.get(), cq.get());
  ibv_qp_init_attr attr = good;
  attr.cap.max_send_wr = static_cast<uint32_t>(device.max_qp_wr) + 1;
  EXPECT_EQ(Refusal(attr), EINVAL);
  attr = good;
  attr.cap.max_recv_wr = static_cast<uint32_t>(device.max_qp_wr) + 1;
  EXPECT_EQ(Refusal(attr), EINVAL);
  attr = good;
  attr.cap.max_send_sge = static_cast<uint32_t>(device.max_sge) + 1;
  EXPECT_EQ(Refusal(attr), EINVAL);
  attr = good;
  attr.cap.max_inline_data = 1 << 20;
  EXPECT_EQ(Refusal(attr), EINVAL);
  EXPECT_EQ(Refusal(good), 0);
}

// As of the kernel's drivers, though completion queues and shared receive queues need an entry.
TEST_F(QueuePairTest, QueueOfNoRequestsTakesNone) {
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  attr.cap = {};
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);
  const Qp peer = Create();
  ConnectLoopback(qp.get(), peer.get());
  EXPECT_EQ(SendRequest(IBV_WR_SEND, {}).Post(qp.get()), ENOMEM);
  ibv_recv_wr receive = {};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(qp.get(), &receive, &bad), ENOMEM);

  EXPECT_EQ(ibv_create_cq(host.context.get(), 0, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_srq_init_attr srq = {};
  EXPECT_EQ(ibv_create_srq(host.pd.get(), &srq), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(QueuePairTest, OtherTypesAreNotSupported) {
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  attr.qp_type = IBV_QPT_RAW_PACKET;
  EXPECT_EQ(Refusal(attr), EOPNOTSUPP);
  attr.qp_type = IBV_QPT_XRC_RECV;  // without a domain
  EXPECT_EQ(Refusal(attr), EINVAL);
  attr.qp_type = static_cast<ibv_qp_type>(77);
  EXPECT_EQ(Refusal(attr), EINVAL);
}

TEST_F(QueuePairTest, UnknownAttributesOfTheExtendedCreationAreNotSupported) {
  const ibv_qp_init_attr basic = RcAttributes(cq.get(), cq.get());
  ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, 0);
  for (const uint32_t bit : {uint32_t{IBV_QP_INIT_ATTR_IND_TABLE}, 1u << 20}) {
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | bit;
    errno = 0;
    EXPECT_EQ(Qp(ibv_create_qp_ex(host.context.get(), &attr)), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
}

TEST_F(QueuePairTest, QueuesOfAnotherContextAreInvalid) {
  const Host other;
  const Cq foreign(ibv_create_cq(other.context.get(), 4, nullptr, nullptr, 0));
  EXPECT_EQ(Refusal(RcAttributes(cq.get(), foreign.get())), EINVAL);
  EXPECT_EQ(Refusal(RcAttributes(foreign.get(), cq.get())), EINVAL);
}

TEST_F(QueuePairTest, ProtectionDomainAndQueuesStayInUse) {
  const Pd pd(ibv_alloc_pd(host.context.get()));
  ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
  Qp qp(ibv_create_qp(pd.get(), &attr));
  EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(cq.get()), EBUSY);
  qp.reset();
}

// Programs call perror() after any of these verbs.
TEST_F(QueuePairTest, ErrorIsInErrnoToo) {
  const Qp qp = Create();
  ibv_qp_attr attr = {};
  const auto expect = [](int error, int returned) {
    EXPECT_EQ(returned, error);
    EXPECT_EQ(errno, error);
    errno = 0;
  };
  errno = 0;
  expect(EBUSY, ibv_dealloc_pd(host.pd.get()));
  expect(EBUSY, ibv_destroy_cq(cq.get()));
  expect(EINVAL, ibv_resize_cq(cq.get(), 0));
  expect(EINVAL, Modify(qp.get(), IBV_QPS_RTS));
  expect(EINVAL, ibv_modify_qp(qp.get(), &attr, IBV_QP_ALT_PATH));
  expect(EINVAL, PostReceive(qp.get(), host.Sge(0, 8), 1));
  expect(EINVAL, SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(qp.get()));
  expect(EINVAL, ibv_attach_mcast(qp.get(), &gid, 0));
}

TEST_F(QueuePairTest, GoesThroughItsStates) {
  const Qp qp = Create();
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RESET);
  ASSERT_EQ(ToInit(qp.get()), 0);
  EXPECT_EQ(qp->state, IBV_QPS_INIT);
  EXPECT_EQ(Query(qp.get()).ah_attr.is_global, 0) << "it has no path yet";
  ASSERT_EQ(ToRtr(qp.get(), qp->qp_num, gid), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTR);
  EXPECT_EQ(Query(qp.get()).ah_attr.is_global, 1);
  ASSERT_EQ(ToRts(qp.get()), 0);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RTS);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_ERR), 0);
  EXPECT_EQ(qp->state, IBV_QPS_ERR);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_RESET), 0);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_RESET), 0);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RESET);
}

// IBA 11.2.5.2.
TEST_F(QueuePairTest, ForbiddenTransitionChangesNothing) {
  const Qp qp = Create();
  EXPECT_EQ(Modify(qp.get(), IBV_QPS_RTS), EINVAL);
  EXPECT_EQ(Modify(qp.get(), OutOfRange<ibv_qp_state>(256 + IBV_QPS_ERR)), EINVAL);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RESET);

  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL);  // incomplete
  attr.port_num = 2;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kInit), EINVAL);
  attr.port_num = 1;
  attr.pkey_index = 1;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kInit), EINVAL);
  attr.pkey_index = 0;
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kInit | IBV_QP_RATE_LIMIT), EINVAL);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kInit | IBV_QP_SQ_PSN), EINVAL);  // not in this one
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RESET);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kInit), 0);
}

TEST_F(QueuePairTest, PathIsChecked) {
  const Qp qp = Create();
  ASSERT_EQ(ToInit(qp.get()), 0);
  ConnectOptions options;
  options.gid_index = 2;
  EXPECT_EQ(ToRtr(qp.get(), 1, gid, options), EINVAL);
  options.gid_index = 0;  // IPv6, and the peer is IPv4
  EXPECT_EQ(ToRtr(qp.get(), 1, gid, options), EINVAL);
  options = {};
  options.mtu = static_cast<ibv_mtu>(6);
  EXPECT_EQ(ToRtr(qp.get(), 1, gid, options), EINVAL);
  EXPECT_EQ(ToRtr(qp.get(), 1 << 24, gid), EINVAL);
  options = {};
  for (const uint8_t index : {uint8_t{0}, uint8_t{1}}) {
    options.gid_index = index;
    EXPECT_EQ(ToRtr(qp.get(), 1, ibv_gid{}, options), EINVAL);
  }
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_INIT);
}

// IBA 11.2.5.3.
TEST_F(QueuePairTest, AttributesAreReportedAsTheyWereSet) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectOptions options;
  options.mtu = IBV_MTU_2048;
  options.rq_psn = 0x123456;
  options.sq_psn = 0xabcdef;
  options.retry_count = 5;
  options.rnr_retry = 3;
  options.min_rnr_timer = 12;
  options.access = IBV_ACCESS_REMOTE_READ;
  ConnectLoopback(a.get(), b.get(), options);

  const ibv_qp_attr attr = Query(a.get());
  EXPECT_EQ(attr.path_mtu, IBV_MTU_2048);
  EXPECT_EQ(attr.rq_psn, 0x123456u);
  EXPECT_EQ(attr.sq_psn, 0xabcdefu);
  EXPECT_EQ(attr.dest_qp_num, b->qp_num);
  EXPECT_EQ(attr.qp_access_flags, static_cast<unsigned int>(IBV_ACCESS_REMOTE_READ));
  EXPECT_EQ(attr.timeout, 14);
  EXPECT_EQ(attr.retry_cnt, 5);
  EXPECT_EQ(attr.rnr_retry, 3);
  EXPECT_EQ(attr.min_rnr_timer, 12);
  EXPECT_EQ(attr.max_rd_atomic, 4);
  EXPECT_EQ(attr.max_dest_rd_atomic, 4);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.ah_attr.is_global, 1);
  EXPECT_EQ(attr.ah_attr.grh.sgid_index, 1);
  EXPECT_EQ(attr.ah_attr.grh.hop_limit, 64);
  EXPECT_EQ(attr.ah_attr.grh.dgid.global.interface_id, gid.global.interface_id);
}

// ib_resolve_unicast_gid_dmac of Linux.
TEST_F(QueuePairTest, HopLimitOfAConnectionIsTheRoutes) {
  for (const uint8_t asked : {uint8_t{0}, uint8_t{1}, uint8_t{255}}) {
    const Qp a = Create();
    const Qp b = Create();
    ConnectOptions options;
    options.hop_limit = asked;
    ConnectLoopback(a.get(), b.get(), options);
    EXPECT_EQ(Query(a.get()).ah_attr.grh.hop_limit, 64);
  }
}

// IBA 11.2.5.3.
TEST_F(QueuePairTest, SequenceNumbersAreLive) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectOptions options;
  options.sq_psn = 0xffffff;  // the next one is 0
  options.rq_psn = 100;
  ConnectLoopback(a.get(), b.get(), options);

  // 3 packets at MTU 1024.
  ASSERT_EQ(PostReceive(b.get(), host.Sge(8192, 4096), 1), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 2500)).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(Query(a.get()).sq_psn, 2u);
  EXPECT_EQ(Query(b.get()).rq_psn, 2u);
  EXPECT_EQ(Query(a.get()).rq_psn, 100u);
  EXPECT_EQ(Query(b.get()).sq_psn, 100u);
}

// IBA 10.3.1.7.
TEST_F(QueuePairTest, ErrorStateFlushesBothQueuesInOrder) {
  const Qp qp = Create();
  ASSERT_EQ(ToInit(qp.get()), 0);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 1), 0);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 2), 0);
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_ERR), 0);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 3), 0);
  SendRequest send(IBV_WR_SEND, host.Sge(0, 8), 4);
  send.send_flags = 0;  // an error completes even so
  ASSERT_EQ(send.Post(qp.get()), 0);
  for (uint64_t id = 1; id <= 4; ++id) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(wc.qp_num, qp->qp_num);
  }
}

// IBA C10-96, C10-97.2.1.
TEST_F(QueuePairTest, PostingIsRefusedInTheWrongState) {
  const Qp qp = Create();
  EXPECT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 1), EINVAL);
  EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(qp.get()), EINVAL);
  ASSERT_EQ(ToInit(qp.get()), 0);
  EXPECT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 1), 0);
  EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(qp.get()), EINVAL);
}

TEST_F(QueuePairTest, ChainStopsAtTheFirstRequestThatCannotBePosted) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 10), 0);

  SendRequest first(IBV_WR_SEND, host.Sge(0, 8), 1);
  SendRequest wrong(OutOfRange<ibv_wr_opcode>(99), host.Sge(0, 8), 2);
  SendRequest never(IBV_WR_SEND, host.Sge(0, 8), 3);
  first.next = &wrong;
  wrong.next = &never;
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(a.get(), &first, &bad), EINVAL);
  EXPECT_EQ(bad, &wrong);
  for (int i = 0; i < 2; ++i) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_TRUE(wc.wr_id == 1 || wc.wr_id == 10);
  }
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
}

// IBA 11.4.1.1.
TEST_F(QueuePairTest, MalformedRequestsAreInvalid) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  const std::vector<ibv_sge> many(33, host.Sge(0, 8));

  SendRequest too_many(IBV_WR_SEND, host.Sge(0, 8));
  too_many.sg_list = const_cast<ibv_sge*>(many.data());
  for (const int count : {5, 33, -1}) {
    too_many.num_sge = count;
    EXPECT_EQ(too_many.Post(a.get()), EINVAL) << count;
  }
  SendRequest inline_too_long(IBV_WR_SEND, host.Sge(0, 2000));
  inline_too_long.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(inline_too_long.Post(a.get()), EINVAL);
  SendRequest inline_read(IBV_WR_RDMA_READ, host.Sge(0, 8));
  inline_read.send_flags |= IBV_SEND_INLINE;
  EXPECT_EQ(inline_read.Remote(host.address(), host.mr->rkey).Post(a.get()), EINVAL);
  SendRequest atomic_of_four_bytes(IBV_WR_ATOMIC_FETCH_AND_ADD, host.Sge(0, 4));
  EXPECT_EQ(atomic_of_four_bytes.Remote(host.address(), host.mr->rkey).Post(a.get()), EINVAL);
  SendRequest number_of_four_bytes(IBV_WR_ATOMIC_WRITE, host.Sge(0, 4));
  EXPECT_EQ(number_of_four_bytes.Remote(host.address(), host.mr->rkey).Post(a.get()), EINVAL);
  constexpr auto kFlush = static_cast<ibv_wr_opcode>(14);  // for ibv_wr_flush only
  SendRequest flush(kFlush, host.Sge(0, 0));
  EXPECT_EQ(flush.Remote(host.address(), host.mr->rkey).Post(a.get()), EINVAL);
  SendRequest checksum(IBV_WR_SEND, host.Sge(0, 8));
  checksum.send_flags |= IBV_SEND_IP_CSUM;
  EXPECT_EQ(checksum.Post(a.get()), EINVAL);

  ibv_sge* const list = const_cast<ibv_sge*>(many.data());
  ibv_recv_wr receive = {.wr_id = 1, .next = nullptr, .sg_list = list, .num_sge = 5};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(a.get(), &receive, &bad), EINVAL);
  EXPECT_EQ(bad, &receive);
}

TEST_F(QueuePairTest, FullQueuesAreOutOfMemory) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  // The receiver has nothing posted, so no send completes.
  uint64_t posted = 0;
  int error = 0;
  while (posted < 100 && error == 0) {
    error = SendRequest(IBV_WR_SEND, host.Sge(0, 8), posted).Post(a.get());
    if (error == 0) ++posted;
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(posted, Query(a.get()).cap.max_send_wr);

  posted = 0;
  error = 0;
  while (posted < 100 && error == 0) {
    error = PostReceive(a.get(), host.Sge(0, 8), posted);
    if (error == 0) ++posted;
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(posted, Query(a.get()).cap.max_recv_wr);
}

TEST_F(QueuePairTest, RemoteAccessErrorReachesTheResponderAsAnEvent) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 8), 5);
  ASSERT_EQ(write.Remote(host.address(), host.mr->rkey ^ 0x100).Post(a.get()), 0);
  const ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.wr_id, 5u);
  EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
  EXPECT_EQ(Query(a.get()).qp_state, IBV_QPS_ERR);

  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(host.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, b.get());
  ibv_ack_async_event(&event);
}

TEST_F(QueuePairTest, SendWithoutAReceiveRequestFailsAfterItsRnrRetries) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectOptions options;
  options.rnr_retry = 2;
  ConnectLoopback(a.get(), b.get(), options);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(QueuePairTest, SilentPeerIsGivenUp) {
  const Qp a = Create();
  ConnectOptions options;
  options.timeout = 8;  // 1 ms
  options.retry_count = 3;
  ASSERT_EQ(ToInit(a.get()), 0);
  ASSERT_EQ(ToRtr(a.get(), a->qp_num + 1, gid), 0);  // no queue pair has this number
  ASSERT_EQ(ToRts(a.get(), options), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace uroce::verbs::testing
