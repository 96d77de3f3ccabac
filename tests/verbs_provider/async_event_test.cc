// Asynchronous events: ibv_get_async_event delivers them with their object, and destroying the
// object waits until they are acknowledged. Those of shared receive queues are in
// shared_receive_queue_test.cc, DEVICE_FATAL in tests/system.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <map>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

class AsyncEventTest : public LoopbackTest {
 protected:
  Qp Create(ibv_qp_type type = IBV_QPT_RC, ibv_cq* received_at = nullptr) {
    ibv_qp_init_attr attr =
        Attributes(type, cq.get(), received_at == nullptr ? cq.get() : received_at);
    Qp qp(ibv_create_qp(host.pd.get(), &attr));
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  // Connects the two, but leaves `b` in RTR.
  void ConnectOneWay(ibv_qp* a, ibv_qp* b) {
    ASSERT_EQ(ToInit(a), 0);
    ASSERT_EQ(ToInit(b), 0);
    ASSERT_EQ(ToRtr(a, b->qp_num, gid), 0);
    ASSERT_EQ(ToRtr(b, a->qp_num, gid), 0);
    ASSERT_EQ(ToRts(a), 0);
  }
  // Connects, and sends the packet that `b` gets in RTR.
  void ConnectAndSend(ibv_qp* a, ibv_qp* b) {
    ConnectOneWay(a, b);
    ASSERT_EQ(PostReceive(b, host.Sge(kUpper, 8), 1), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  }

  const ibv_gid gid = OwnGid();
};

TEST_F(AsyncEventTest, FirstPacketInRtrEstablishesTheCommunication) {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    const Qp a = Create(type);
    const Qp b = Create(type);
    ConnectOneWay(a.get(), b.get());
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), 1), 0);
      ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
      EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
      EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
      if (i == 0) ExpectAsyncEvent(host.context.get(), IBV_EVENT_COMM_EST, b.get());
    }
    ExpectNoAsyncEvent(host.context.get());
  }
}

TEST_F(AsyncEventTest, DrainedSendQueueIsAnnouncedWhenAskedFor) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_STATE), 0);
  ExpectNoAsyncEvent(host.context.get());
  ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_SQ_DRAINED, a.get());
  EXPECT_EQ(Query(a.get()).sq_draining, 0);
  ExpectNoAsyncEvent(host.context.get());
}

TEST_F(AsyncEventTest, DrainingWaitsForTheAnswer) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  // The receiver is not ready, so the SEND stays in flight until a receive request is posted.
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 1).Post(a.get()), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  EXPECT_EQ(Query(a.get()).sq_draining, 1);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 2).Post(a.get()), 0);  // held back
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), 10), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), 11), 0);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_SQ_DRAINED, a.get());
  EXPECT_EQ(Query(a.get()).sq_draining, 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 10u);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 1u);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
  ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 11u);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 2u);
}

TEST_F(AsyncEventTest, ForbiddenAccessIsAnErrorOfTheResponder) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectLoopback(a.get(), b.get());
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 8));
  ASSERT_EQ(write.Remote(host.address(), host.mr->rkey ^ 0x100).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_ACCESS_ERR, b.get());
  EXPECT_EQ(Query(b.get()).qp_state, IBV_QPS_ERR);
  ExpectNoAsyncEvent(host.context.get());
}

TEST_F(AsyncEventTest, InvalidRequestIsAnErrorOfTheResponder) {
  const Qp a = Create();
  const Qp b = Create();
  ConnectOptions options;
  options.access = 0;  // the responder takes no READs, and the requester does not know
  ConnectLoopback(a.get(), b.get(), options);
  SendRequest read(IBV_WR_RDMA_READ, host.Sge(0, 8));
  ASSERT_EQ(read.Remote(host.address(kUpper), host.mr->rkey).Post(a.get()), 0);
  const ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_REQ_ERR, b.get());
  EXPECT_EQ(Query(b.get()).qp_state, IBV_QPS_ERR);
}

// A completion for which the queue has no room is lost. The queue enters the error state, and so do
// the queue pairs that complete there.
TEST_F(AsyncEventTest, OverrunQueueIsFatalForItsQueuePairs) {
  const Cq tiny = host.CreateCq(1);
  const Qp a = Create();
  const Qp b = Create(IBV_QPT_RC, tiny.get());
  ConnectLoopback(a.get(), b.get());
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), id), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), id).Post(a.get()), 0);
  }
  std::map<ibv_event_type, const void*> events;
  for (int i = 0; i < 2; ++i) {
    ibv_async_event event = {};
    ASSERT_EQ(ibv_get_async_event(host.context.get(), &event), 0);
    events[event.event_type] = event.element.cq;
    ibv_ack_async_event(&event);
  }
  EXPECT_EQ(events[IBV_EVENT_CQ_ERR], tiny.get());
  EXPECT_EQ(events[IBV_EVENT_QP_FATAL], b.get());
  EXPECT_EQ(Query(b.get()).qp_state, IBV_QPS_ERR);
  EXPECT_EQ(WaitForCompletion(tiny.get()).wr_id, 1u);  // the earlier completion stays
}

TEST_F(AsyncEventTest, EventsGoToTheContextOfTheirObject) {
  const Context other = OpenUroce();
  const Qp a = Create();
  const Qp b = Create();
  ConnectAndSend(a.get(), b.get());
  ExpectNoAsyncEvent(other.get());
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_COMM_EST, b.get());
}

TEST_F(AsyncEventTest, DestroyOfAQueuePairWaitsForTheAcknowledgement) {
  const Qp a = Create();
  Qp b = Create();
  ConnectAndSend(a.get(), b.get());
  ibv_async_event event = {};
  ASSERT_EQ(ibv_get_async_event(host.context.get(), &event), 0);

  ibv_qp* const raw = b.release();
  ExpectWaitsForAcknowledgement([&] { return ibv_destroy_qp(raw); },
                                [&] { ibv_ack_async_event(&event); });
}

TEST_F(AsyncEventTest, DestroyDropsTheUnreadEvent) {
  const Qp a = Create();
  Qp b = Create();
  ConnectAndSend(a.get(), b.get());
  b.reset();
  ExpectNoAsyncEvent(host.context.get());
}

}  // namespace
}  // namespace uroce::verbs::testing
