// Shared receive queues: capacity, consumers, and the limit event.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

class SharedReceiveQueueTest : public LoopbackTest {
 protected:
  static constexpr uint32_t kQkey = 0x1111'1111;

  Srq Create(uint32_t max_wr = 16, uint32_t max_sge = 2, uint32_t limit = 0) {
    ibv_srq_init_attr attr = {.srq_context = this,
                              .attr = {.max_wr = max_wr, .max_sge = max_sge, .srq_limit = limit}};
    errno = 0;
    return Srq(ibv_create_srq(host.pd.get(), &attr));
  }
  Qp CreateQp(ibv_qp_type type, ibv_srq* srq) {
    ibv_qp_init_attr attr = Attributes(type, cq.get(), receive_cq.get(), srq);
    Qp qp(ibv_create_qp(host.pd.get(), &attr));
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  ibv_srq_attr QuerySrq(ibv_srq* srq) {
    ibv_srq_attr attr = {};
    EXPECT_EQ(ibv_query_srq(srq, &attr), 0);
    return attr;
  }
  int SetLimit(ibv_srq* srq, uint32_t limit) {
    ibv_srq_attr attr = {.max_wr = 0, .max_sge = 0, .srq_limit = limit};
    return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
  }
  int Resize(ibv_srq* srq, uint32_t max_wr) {
    ibv_srq_attr attr = {.max_wr = max_wr, .max_sge = 0, .srq_limit = 0};
    return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
  }
  // Two connected queue pairs, of which the second uses `srq`, with `receives` requests posted.
  std::pair<Qp, Qp> ConnectWithReceives(ibv_srq* srq, uint64_t receives) {
    std::pair<Qp, Qp> pair(CreateQp(IBV_QPT_RC, nullptr), CreateQp(IBV_QPT_RC, srq));
    ConnectLoopback(pair.first.get(), pair.second.get());
    for (uint64_t id = 1; id <= receives; ++id) {
      EXPECT_EQ(PostReceive(srq, host.Sge(kUpper, 8), id), 0);
    }
    return pair;
  }
  // Sends `length` bytes and waits until they are received.
  ibv_wc Send(ibv_qp* qp, uint32_t length = 8) {
    EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, length)).Post(qp), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    return WaitForCompletion(receive_cq.get());
  }

  const ibv_gid gid = OwnGid();
};

TEST_F(SharedReceiveQueueTest, CreationIsChecked) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
  ASSERT_GT(device.max_srq_wr, 0);
  EXPECT_EQ(Create(0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Create(static_cast<uint32_t>(device.max_srq_wr) + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Create(1, static_cast<uint32_t>(device.max_srq_sge) + 1), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(
      Create(static_cast<uint32_t>(device.max_srq_wr), static_cast<uint32_t>(device.max_srq_sge)),
      nullptr);
}

TEST_F(SharedReceiveQueueTest, IsReportedAsItWasGranted) {
  ibv_srq_init_attr attr = {.srq_context = this,
                            .attr = {.max_wr = 10, .max_sge = 3, .srq_limit = 5}};
  const Srq srq(ibv_create_srq(host.pd.get(), &attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq->srq_context, this);
  EXPECT_EQ(srq->pd, host.pd.get());
  EXPECT_EQ(srq->context, host.context.get());
  EXPECT_GE(attr.attr.max_wr, 10u);
  EXPECT_GE(attr.attr.max_sge, 3u);
  const ibv_srq_attr queried = QuerySrq(srq.get());
  EXPECT_EQ(queried.max_wr, attr.attr.max_wr);
  EXPECT_EQ(queried.max_sge, attr.attr.max_sge);
  EXPECT_EQ(queried.srq_limit, 0u);  // the creation ignores the limit
}

TEST_F(SharedReceiveQueueTest, ExtendedCreationKnowsTheBasicType) {
  ibv_srq_init_attr_ex attr = {};
  attr.srq_context = this;
  attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  attr.srq_type = IBV_SRQT_BASIC;
  attr.pd = host.pd.get();
  const Srq srq(ibv_create_srq_ex(host.context.get(), &attr));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(srq->srq_context, this);
  EXPECT_EQ(srq->pd, host.pd.get());
  EXPECT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  attr.srq_type = IBV_SRQT_TM;
  errno = 0;
  EXPECT_EQ(ibv_create_srq_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
  attr.srq_type = IBV_SRQT_BASIC;
  EXPECT_EQ(ibv_create_srq_ex(host.context.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SharedReceiveQueueTest, PostingIsChecked) {
  const Srq srq = Create(2, 1);
  std::vector<ibv_sge> pieces(2, host.Sge(kUpper, 8));
  ibv_recv_wr second = {.wr_id = 2, .next = nullptr, .sg_list = pieces.data(), .num_sge = 2};
  ibv_recv_wr first = {.wr_id = 1, .next = &second, .sg_list = pieces.data(), .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq.get(), &first, &bad), EINVAL);
  EXPECT_EQ(bad, &second);
  EXPECT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 3), 0);
  EXPECT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 4), ENOMEM);
}

// IBA 10.2.9.
TEST_F(SharedReceiveQueueTest, QueuePairsOfAllServicesDrawInOrder) {
  const Srq srq = Create();
  Qp senders[3], receivers[3];
  const ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
  for (int i = 0; i < 3; ++i) {
    senders[i] = CreateQp(types[i], nullptr);
    receivers[i] = CreateQp(types[i], srq.get());
    ConnectLoopback(senders[i].get(), receivers[i].get());
  }
  ibv_ah_attr address = AddressOf(gid, 1);
  const Ah ah(ibv_create_ah(host.pd.get(), &address));
  for (uint64_t id = 0; id < 6; ++id) {
    ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper + 200 * id, 200), id), 0);
  }
  for (uint64_t id = 0; id < 6; ++id) {
    const int i = static_cast<int>(id % 3);
    SendRequest send(IBV_WR_SEND, host.Sge(0, 100), id);
    if (types[i] == IBV_QPT_UD) send.To(ah.get(), receivers[i]->qp_num, kQkey);
    ASSERT_EQ(send.Post(senders[i].get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    const ibv_wc wc = WaitForCompletion(receive_cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.qp_num, receivers[i]->qp_num);
    EXPECT_EQ(wc.byte_len, types[i] == IBV_QPT_UD ? 140u : 100u);
  }
}

TEST_F(SharedReceiveQueueTest, QueuePairHasNoReceiveQueueOfItsOwn) {
  const Srq srq = Create();
  ibv_qp_init_attr attr = Attributes(IBV_QPT_RC, cq.get(), receive_cq.get(), srq.get());
  attr.cap.max_recv_wr = UINT32_MAX;  // ignored, as are the SGEs
  attr.cap.max_recv_sge = UINT32_MAX;
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(qp->srq, srq.get());
  EXPECT_EQ(attr.cap.max_recv_wr, 0u);
  EXPECT_EQ(attr.cap.max_recv_sge, 0u);
  ibv_qp_attr queried;
  ibv_qp_init_attr init;
  ASSERT_EQ(ibv_query_qp(qp.get(), &queried, IBV_QP_CAP, &init), 0);
  EXPECT_EQ(init.srq, srq.get());
  EXPECT_EQ(queried.cap.max_recv_wr, 0u);
  ASSERT_EQ(ToInit(qp.get()), 0);
  EXPECT_EQ(PostReceive(qp.get(), host.Sge(kUpper, 8), 1), EINVAL);
}

TEST_F(SharedReceiveQueueTest, QueueOfAnotherContextIsInvalid) {
  const Host other;
  ibv_srq_init_attr srq_attr = {.srq_context = nullptr,
                                .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  const Srq foreign(ibv_create_srq(other.pd.get(), &srq_attr));
  ibv_qp_init_attr attr = Attributes(IBV_QPT_RC, cq.get(), receive_cq.get(), foreign.get());
  errno = 0;
  EXPECT_EQ(ibv_create_qp(host.pd.get(), &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SharedReceiveQueueTest, InUseIsBusy) {
  Srq srq = Create();
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);
  const Qp qp = CreateQp(IBV_QPT_RC, srq.get());
  EXPECT_EQ(ibv_destroy_srq(srq.get()), EBUSY);
}

// A request belongs to no queue pair until a message consumes it, so a queue pair's error flushes
// none.
TEST_F(SharedReceiveQueueTest, ErrorOfAQueuePairFlushesNothingOfIt) {
  const Srq srq = Create();
  Qp a = CreateQp(IBV_QPT_RC, nullptr);
  Qp b = CreateQp(IBV_QPT_RC, srq.get());
  ConnectLoopback(a.get(), b.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(Modify(b.get(), IBV_QPS_ERR), 0);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(receive_cq.get(), 1, &wc), 0);
  // The queue pair uses no request of the shared queue, so it has reached the last one.
  // IBA 11.6.3.1 LAST_WQE_REACHED.
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_LAST_WQE_REACHED, b.get());

  const Qp c = CreateQp(IBV_QPT_RC, nullptr);
  const Qp d = CreateQp(IBV_QPT_RC, srq.get());
  ConnectLoopback(c.get(), d.get());
  EXPECT_EQ(Send(c.get()).wr_id, 1u);
}

// IBA 11.6.3.1 SRQ_LIMIT_REACHED.
TEST_F(SharedReceiveQueueTest, LimitIsAnnouncedOnce) {
  const Srq srq = Create(4);
  const auto [a, b] = ConnectWithReceives(srq.get(), 4);
  ASSERT_EQ(SetLimit(srq.get(), 3), 0);
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, 3u);
  EXPECT_EQ(Send(a.get()).wr_id, 1u);  // 3 are left
  ExpectNoAsyncEvent(host.context.get());
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, 3u);
  EXPECT_EQ(Send(a.get()).wr_id, 2u);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, 0u);
  EXPECT_EQ(Send(a.get()).wr_id, 3u);
  ExpectNoAsyncEvent(host.context.get());
}

TEST_F(SharedReceiveQueueTest, ModificationIsChecked) {
  const Srq srq = Create(8);
  const uint32_t size = QuerySrq(srq.get()).max_wr;
  EXPECT_EQ(SetLimit(srq.get(), size + 1), EINVAL);
  EXPECT_EQ(SetLimit(srq.get(), size), 0);
  EXPECT_EQ(Resize(srq.get(), 0), EINVAL);
  EXPECT_EQ(Resize(srq.get(), UINT32_MAX), EINVAL);
  EXPECT_EQ(Resize(srq.get(), size - 1), EINVAL);  // less than the limit
  ibv_srq_attr attr = {.max_wr = 4, .max_sge = 0, .srq_limit = 5};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, 1 << 2), EINVAL);
  EXPECT_EQ(QuerySrq(srq.get()).max_wr, size);
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, size);
  attr.srq_limit = 2;
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
  EXPECT_EQ(QuerySrq(srq.get()).max_wr, 4u);
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, 2u);
}

TEST_F(SharedReceiveQueueTest, ResizeKeepsPostedRequests) {
  const Srq srq = Create(4);
  const auto [a, b] = ConnectWithReceives(srq.get(), 4);
  EXPECT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 5), ENOMEM);
  EXPECT_EQ(Resize(srq.get(), 3), EINVAL);
  ASSERT_EQ(Resize(srq.get(), 6), 0);
  EXPECT_EQ(QuerySrq(srq.get()).max_wr, 6u);
  for (uint64_t id = 5; id <= 6; ++id) {
    ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), id), 0);
  }
  for (uint64_t id = 1; id <= 6; ++id) EXPECT_EQ(Send(a.get()).wr_id, id);
}

TEST_F(SharedReceiveQueueTest, RefusedResizeKeepsTheLimit) {
  const Srq srq = Create(8);
  for (uint64_t id = 1; id <= 5; ++id) {
    ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), id), 0);
  }
  ASSERT_EQ(SetLimit(srq.get(), 3), 0);
  ibv_srq_attr attr = {.max_wr = 4, .max_sge = 0, .srq_limit = 2};  // 5 are posted
  EXPECT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
  EXPECT_EQ(QuerySrq(srq.get()).max_wr, 8u);
  EXPECT_EQ(QuerySrq(srq.get()).srq_limit, 3u);
}

TEST_F(SharedReceiveQueueTest, DestroyWaitsForTheAcknowledgement) {
  Srq srq = Create(4);
  Qp a = CreateQp(IBV_QPT_RC, nullptr);
  Qp b = CreateQp(IBV_QPT_RC, srq.get());
  ConnectLoopback(a.get(), b.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(SetLimit(srq.get(), 1), 0);
  EXPECT_EQ(Send(a.get()).wr_id, 1u);
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(host.context.get(), &event), 0);
  ASSERT_EQ(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  a.reset();
  b.reset();
  ibv_srq* const raw = srq.release();
  ExpectWaitsForAcknowledgement([&] { return ibv_destroy_srq(raw); },
                                [&] { ibv_ack_async_event(&event); });
}

TEST_F(SharedReceiveQueueTest, DestroyDropsTheUnreadEvent) {
  Srq srq = Create(4);
  Qp a = CreateQp(IBV_QPT_RC, nullptr);
  Qp b = CreateQp(IBV_QPT_RC, srq.get());
  ConnectLoopback(a.get(), b.get());
  ASSERT_EQ(PostReceive(srq.get(), host.Sge(kUpper, 8), 1), 0);
  ASSERT_EQ(SetLimit(srq.get(), 1), 0);
  EXPECT_EQ(Send(a.get()).wr_id, 1u);
  a.reset();
  b.reset();
  srq.reset();
  ExpectNoAsyncEvent(host.context.get());
}

}  // namespace
}  // namespace uroce::verbs::testing
