// Completion queues: sizes, events, and the extended way to poll.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "tests/dpdk_nic/engine/thread_state.h"
#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

// Two connected queue pairs of one host; `a` sends to `b`, whose completion queue has a channel.
class CompletionQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    channel.reset(ibv_create_comp_channel(host.context.get()));
    ASSERT_NE(channel, nullptr);
    ASSERT_EQ(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    send_cq = host.CreateCq(16);
    receive_cq = host.CreateCq(16, channel.get());
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    ConnectLoopback(a.get(), b.get());
  }

  // Sends one message from `a` to `b` and takes the sender's completion.
  void SendOne(uint64_t id = 1, unsigned int more_flags = 0) {
    ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), id), 0);
    SendRequest send(IBV_WR_SEND, host.Sge(0, 8), id);
    send.send_flags |= more_flags;
    ASSERT_EQ(send.Post(a.get()), 0);
    ASSERT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
  }

  bool ChannelBecomesReadable(int timeout_ms) {
    pollfd fd = {.fd = channel->fd, .events = POLLIN, .revents = 0};
    return poll(&fd, 1, timeout_ms) == 1;
  }

  // Takes an event; false if there is none.
  bool TakeEvent() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel.get(), &cq, &context) != 0) return false;
    EXPECT_EQ(cq, receive_cq.get());
    EXPECT_EQ(context, &host);
    return true;
  }

  static constexpr int kLong = 10'000;
  Host host;
  Channel channel;
  Cq send_cq, receive_cq;
  Qp a, b;
};

TEST_F(CompletionQueueTest, SizeAndVectorAreChecked) {
  ibv_context* const context = host.context.get();
  for (const int entries : {0, -1, INT32_MAX}) {
    errno = 0;
    EXPECT_EQ(ibv_create_cq(context, entries, nullptr, nullptr, 0), nullptr) << entries;
    EXPECT_EQ(errno, EINVAL);
  }
  errno = 0;
  EXPECT_EQ(ibv_create_cq(context, 1, nullptr, nullptr, context->num_comp_vectors), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_GE(host.CreateCq(100)->cqe, 100);
}

TEST_F(CompletionQueueTest, EachProcessorHasAVectorThatRaisesEvents) {
  const int vectors = host.context->num_comp_vectors;
  EXPECT_EQ(vectors, sysconf(_SC_NPROCESSORS_CONF));
  for (int vector = 0; vector < vectors; ++vector) {
    b.reset();
    a.reset();
    receive_cq.reset(ibv_create_cq(host.context.get(), 16, &host, channel.get(), vector));
    ASSERT_NE(receive_cq, nullptr) << vector;
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
    SendOne();
    ASSERT_TRUE(ChannelBecomesReadable(kLong)) << vector;
    EXPECT_TRUE(TakeEvent()) << vector;
    ibv_ack_cq_events(receive_cq.get(), 1);
  }
}

// IBA C11-17.
TEST_F(CompletionQueueTest, InUseIsBusy) {
  EXPECT_EQ(ibv_destroy_cq(send_cq.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(receive_cq.get()), EBUSY);
}

TEST_F(CompletionQueueTest, NothingIsPolledForNegativeOrNoRoom) {
  ibv_wc wc;
  EXPECT_LT(ibv_poll_cq(send_cq.get(), -1, &wc), 0);
  SendOne();
  EXPECT_EQ(ibv_poll_cq(receive_cq.get(), 0, &wc), 0);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
}

TEST_F(CompletionQueueTest, UnarmedQueueRaisesNoEvent) {
  SendOne();
  EXPECT_FALSE(ChannelBecomesReadable(50));
}

TEST_F(CompletionQueueTest, ArmedQueueRaisesOneEvent) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  SendOne(1);
  SendOne(2);
  ASSERT_TRUE(ChannelBecomesReadable(kLong));
  EXPECT_TRUE(TakeEvent());
  EXPECT_FALSE(TakeEvent());
  EXPECT_EQ(errno, EAGAIN);
  ibv_ack_cq_events(receive_cq.get(), 1);

  // The event announced both. The program polls both in one call: between two calls it may stand
  // still for so long that the queue takes what is left for forgotten.
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  EXPECT_FALSE(ChannelBecomesReadable(0));
  ibv_wc wc[2];
  ASSERT_EQ(ibv_poll_cq(receive_cq.get(), 2, wc), 2);
  EXPECT_EQ(wc[0].wr_id, 1u);
  EXPECT_EQ(wc[1].wr_id, 2u);
  EXPECT_FALSE(ChannelBecomesReadable(50));
  // The queue is armed still.
  SendOne(3);
  EXPECT_TRUE(TakeEvent());
  ibv_ack_cq_events(receive_cq.get(), 1);
}

// perftest takes an event, arms, polls a part and waits for the next event.
TEST_F(CompletionQueueTest, PollThatLeavesCompletionsInTheArmedQueueIsFollowedByAnEvent) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  for (uint64_t id = 1; id <= 6; ++id) SendOne(id);
  for (int events = 1; events <= 3; ++events) {
    ASSERT_TRUE(ChannelBecomesReadable(kLong));
    EXPECT_TRUE(TakeEvent());
    ibv_ack_cq_events(receive_cq.get(), 1);
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
    ibv_wc wc[2];
    ASSERT_EQ(ibv_poll_cq(receive_cq.get(), 2, wc), 2);
  }
  EXPECT_FALSE(ChannelBecomesReadable(50));
}

// Events are posted before the verb that raises them returns, so the test waits for nothing.
TEST_F(CompletionQueueTest, ArmingRaisesTheEventOfAWaitingCompletion) {
  SendOne(1);
  EXPECT_FALSE(ChannelBecomesReadable(0));
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  EXPECT_TRUE(TakeEvent());
  EXPECT_FALSE(TakeEvent());
  ibv_ack_cq_events(receive_cq.get(), 1);
}

TEST_F(CompletionQueueTest, ArmingForSolicitedRaisesEventsOfSolicitedOnly) {
  SendOne(1);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 1), 0);
  EXPECT_FALSE(TakeEvent());
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 1u);
  SendOne(2, IBV_SEND_SOLICITED);
  EXPECT_TRUE(TakeEvent());
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 2u);
  SendOne(3, IBV_SEND_SOLICITED);
  SendOne(4);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 1), 0);
  EXPECT_TRUE(TakeEvent());
  ibv_ack_cq_events(receive_cq.get(), 2);
}

// Otherwise a program that reconnects would read errors of the old connection, with wr_ids of
// memory that it has freed.
TEST_F(CompletionQueueTest, CompletionsOfAQueuePairGoWithItsReset) {
  SendOne(1);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 2), 0);
  ASSERT_EQ(Modify(b.get(), IBV_QPS_ERR), 0);
  ASSERT_EQ(Modify(b.get(), IBV_QPS_RESET), 0);
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(receive_cq.get(), 1, &wc), 0);
}

TEST_F(CompletionQueueTest, CompletionsOfADestroyedQueuePairGoWithItAlone) {
  for (const Qp* qp : {&a, &b}) {
    ASSERT_EQ(Modify(qp->get(), IBV_QPS_ERR), 0);
    ASSERT_EQ(PostReceive(qp->get(), host.Sge(4096, 64), (*qp)->qp_num), 0);
    SendRequest send(IBV_WR_SEND, host.Sge(0, 8), (*qp)->qp_num);
    ASSERT_EQ(send.Post(qp->get()), 0);
  }
  const uint32_t left = b->qp_num;
  a.reset();
  ibv_wc wc[4];
  for (ibv_cq* cq : {send_cq.get(), receive_cq.get()}) {
    ASSERT_EQ(ibv_poll_cq(cq, 4, wc), 1);
    EXPECT_EQ(wc[0].wr_id, left);
  }
}

// The program has taken the event but not acknowledged it. Destroying the queue pair neither
// withdraws the event nor waits for the acknowledgement.
TEST_F(CompletionQueueTest, EventThatIsNotAcknowledgedSurvivesTheQueuePair) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  SendOne();
  ASSERT_TRUE(TakeEvent());
  b.reset();
  a.reset();
  ibv_wc wc;
  EXPECT_EQ(ibv_poll_cq(receive_cq.get(), 1, &wc), 0);
  ibv_ack_cq_events(receive_cq.get(), 1);
}

// Queue pairs come and go on a queue that another thread polls and waits for. Completions of other
// queue pairs must arrive exactly once.
TEST_F(CompletionQueueTest, OtherQueuePairsLoseNeitherCompletionsNorEvents) {
  constexpr uint64_t kMessages = 300;
  std::atomic<bool> done{false};
  std::thread destroyer([&] {
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), receive_cq.get());
    while (!done) {
      const Qp qp(ibv_create_qp(host.pd.get(), &attr));
      ASSERT_EQ(ToInit(qp.get()), 0);
      for (uint64_t id = 1'000; id < 1'008; ++id) {
        ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), id), 0);
      }
      ASSERT_EQ(Modify(qp.get(), IBV_QPS_ERR), 0);
    }
  });
  uint64_t received = 0;
  uint32_t events = 0;
  for (uint64_t id = 1; id <= kMessages; ++id) {
    SendOne(id);
    while (received < id) {
      ibv_wc wc;
      while (received < id && ibv_poll_cq(receive_cq.get(), 1, &wc) == 1) {
        if (wc.qp_num != b->qp_num) continue;
        EXPECT_EQ(wc.wr_id, ++received);
      }
      if (received == id) break;
      ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
      ASSERT_TRUE(ChannelBecomesReadable(6 * kLong)) << id;
      while (TakeEvent()) ++events;
    }
  }
  done = true;
  destroyer.join();
  while (TakeEvent()) ++events;
  ibv_ack_cq_events(receive_cq.get(), events);
}

TEST_F(CompletionQueueTest, SolicitedOnlySkipsOrdinaryMessages) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 1), 0);
  SendOne(1);
  EXPECT_FALSE(ChannelBecomesReadable(50));
  for (const int how : {0, int{IBV_SEND_INLINE}}) {
    SendOne(2, IBV_SEND_SOLICITED | how);
    ASSERT_TRUE(ChannelBecomesReadable(kLong));
    EXPECT_TRUE(TakeEvent());
    while (WaitForCompletion(receive_cq.get()).wr_id != 2) continue;
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 1), 0);
  }
  ibv_ack_cq_events(receive_cq.get(), 2);
}

// IBA 11.4.2.2.
TEST_F(CompletionQueueTest, ErrorCompletionCountsAsSolicited) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 7), 0);
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 1), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b.get(), &attr, IBV_QP_STATE), 0);
  ASSERT_TRUE(ChannelBecomesReadable(kLong));
  EXPECT_TRUE(TakeEvent());
  ibv_ack_cq_events(receive_cq.get(), 1);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
}

// The channel has room for a mebibyte of events of 8 bytes.
TEST_F(CompletionQueueTest, EventThatFindsTheChannelFullRaisesCqErr) {
  constexpr int kEvents = (1 << 20) / 8;
  for (int i = 0; i < kEvents; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
    SendOne();
    ASSERT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  }
  ExpectNoAsyncEvent(host.context.get());
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
    SendOne();
    ASSERT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  }
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_CQ_ERR, receive_cq.get());
  ExpectNoAsyncEvent(host.context.get());
}

TEST_F(CompletionQueueTest, DestroyDropsUnreadEvents) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  SendOne();
  ASSERT_TRUE(ChannelBecomesReadable(kLong));
  a.reset();
  b.reset();
  EXPECT_EQ(ibv_destroy_cq(receive_cq.release()), 0);
  EXPECT_FALSE(ChannelBecomesReadable(0));
}

TEST_F(CompletionQueueTest, DestroyWaitsForTheAcknowledgement) {
  ASSERT_EQ(ibv_req_notify_cq(receive_cq.get(), 0), 0);
  SendOne();
  ASSERT_TRUE(ChannelBecomesReadable(kLong));
  ASSERT_TRUE(TakeEvent());
  a.reset();
  b.reset();

  ibv_cq* const cq = receive_cq.release();
  ExpectWaitsForAcknowledgement([&] { return ibv_destroy_cq(cq); },
                                [&] { ibv_ack_cq_events(cq, 1); });
}

TEST_F(CompletionQueueTest, ResizeKeepsCompletions) {
  for (uint64_t id = 1; id <= 4; ++id) SendOne(id);
  EXPECT_EQ(ibv_resize_cq(receive_cq.get(), 3), EINVAL);
  ASSERT_EQ(ibv_resize_cq(receive_cq.get(), 4), 0);
  EXPECT_GE(receive_cq->cqe, 4);
  ASSERT_EQ(ibv_resize_cq(receive_cq.get(), 1000), 0);
  EXPECT_GE(receive_cq->cqe, 1000);
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, id);
  EXPECT_EQ(ibv_resize_cq(receive_cq.get(), 0), EINVAL);
}

TEST_F(CompletionQueueTest, ResizeUnderTrafficLosesNothing) {
  constexpr uint64_t kMessages = 2'000;
  std::atomic<bool> done{false};
  std::thread resizer([&] {
    for (int entries = 17; !done; entries = entries == 17 ? 400 : 17) {
      const int error = ibv_resize_cq(receive_cq.get(), entries);
      EXPECT_TRUE(error == 0 || error == EINVAL) << error;
    }
  });
  for (uint64_t id = 1; id <= kMessages; ++id) {
    SendOne(id);
    const ibv_wc wc = WaitForCompletion(receive_cq.get());
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    ASSERT_EQ(wc.wr_id, id);
  }
  done = true;
  resizer.join();
}

// IBA 11.6.3.2 CQ_ERR.
TEST_F(CompletionQueueTest, OverflowIsAnAsynchronousError) {
  const Cq tiny = host.CreateCq(1);
  ibv_qp_init_attr attr = RcAttributes(send_cq.get(), tiny.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attr));
  ASSERT_EQ(ToInit(qp.get()), 0);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 1), 0);
  ASSERT_EQ(PostReceive(qp.get(), host.Sge(0, 8), 2), 0);
  ::testing::internal::CaptureStderr();
  ASSERT_EQ(Modify(qp.get(), IBV_QPS_ERR), 0);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("CQ overrun"), std::string::npos) << log;

  ibv_async_event event;
  ASSERT_EQ(ibv_get_async_event(host.context.get(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, tiny.get());
  ibv_ack_async_event(&event);
  EXPECT_EQ(WaitForCompletion(tiny.get()).wr_id, 1u);
}

// As on NICs: a queue pair whose completion was lost goes to ERR.
TEST_F(CompletionQueueTest, QueuePairThatLostACompletionGoesToErr) {
  const Cq tiny = host.CreateCq(1);
  ibv_qp_init_attr attr = RcAttributes(tiny.get(), receive_cq.get());
  const Qp sender(ibv_create_qp(host.pd.get(), &attr));
  const Qp receiver(ibv_create_qp(host.pd.get(), &attr));
  ConnectLoopback(sender.get(), receiver.get());
  for (uint64_t id = 1; id <= 2; ++id) {
    ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, 8), id)
                  .Remote(host.address(4'096), host.mr->rkey)
                  .Post(sender.get()),
              0);
  }
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_CQ_ERR, tiny.get());
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_QP_FATAL, sender.get());
  EXPECT_EQ(Query(sender.get()).qp_state, IBV_QPS_ERR);
}

class ExtendedCompletionQueueTest : public ::testing::Test {
 protected:
  ibv_cq_ex* Create(uint64_t wc_flags, uint32_t comp_mask = 0, uint32_t flags = 0) {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 16;
    attr.wc_flags = wc_flags;
    attr.comp_mask = comp_mask;
    attr.flags = flags;
    errno = 0;
    return ibv_create_cq_ex(host.context.get(), &attr);
  }
  // A queue that holds the completions of two messages, 1 and 2.
  ibv_cq_ex* CreateWithTwoMessages() {
    ibv_cq_ex* const extended = Create(IBV_WC_STANDARD_FLAGS);
    cq.reset(ibv_cq_ex_to_cq(extended));
    ibv_qp_init_attr attr = RcAttributes(send_cq.get(), cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    ibv_poll_cq_attr poll_attr = {};
    EXPECT_EQ(ibv_start_poll(extended, &poll_attr), ENOENT);
    for (uint64_t id = 1; id <= 2; ++id) {
      EXPECT_EQ(PostReceive(b.get(), host.Sge(4096, 64), id), 0);
      SendRequest send(IBV_WR_SEND_WITH_IMM, host.Sge(0, static_cast<uint32_t>(8 * id)), id);
      send.imm_data = htobe32(0x100 + static_cast<uint32_t>(id));
      EXPECT_EQ(send.Post(a.get()), 0);
      EXPECT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
    }
    return extended;
  }
  void ExpectNothingMore() {
    ibv_wc wc;
    EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
  }

  Host host;
  Cq cq;
  Cq send_cq = host.CreateCq(16);
  Qp a, b;
};

TEST_F(ExtendedCompletionQueueTest, UnofferedFieldsAndFlagsAreNotSupported) {
  for (const uint64_t field :
       {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO}) {
    EXPECT_EQ(Create(field), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  EXPECT_EQ(Create(IBV_WC_STANDARD_FLAGS, IBV_CQ_INIT_ATTR_MASK_FLAGS,
                   IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN << 1),
            nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(Create(IBV_WC_STANDARD_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD << 1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

// UCCL.
TEST_F(ExtendedCompletionQueueTest, QueueThatIgnoresOverrunGoesOn) {
  ibv_cq_init_attr_ex attr = {};
  attr.cqe = 1;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  cq.reset(ibv_cq_ex_to_cq(ibv_create_cq_ex(host.context.get(), &attr)));
  ASSERT_NE(cq, nullptr);
  ibv_qp_init_attr pair = RcAttributes(cq.get(), cq.get());
  a.reset(ibv_create_qp(host.pd.get(), &pair));
  pair.send_cq = send_cq.get();
  b.reset(ibv_create_qp(host.pd.get(), &pair));
  ConnectLoopback(a.get(), b.get());
  for (uint64_t id = 1; id <= 8; ++id) {
    ASSERT_EQ(PostReceive(a.get(), host.Sge(4'096, 8), id), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), id).Post(b.get()), 0);
    ASSERT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
  }
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 1u);
  ExpectNothingMore();
  ASSERT_EQ(PostReceive(a.get(), host.Sge(4'096, 8), 9), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(b.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 9u);
  ExpectNoAsyncEvent(host.context.get());
}

TEST_F(ExtendedCompletionQueueTest, IteratesOverCompletions) {
  ibv_cq_ex* const extended = CreateWithTwoMessages();
  ibv_poll_cq_attr poll_attr = {};
  ibv_poll_cq_attr unknown = {.comp_mask = 1};
  EXPECT_EQ(ibv_start_poll(extended, &unknown), EINVAL);
  ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
  for (uint64_t id = 1; id <= 2; ++id) {
    EXPECT_EQ(extended->wr_id, id);
    EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(extended), 8 * id);
    EXPECT_EQ(ibv_wc_read_imm_data(extended), htobe32(0x100 + static_cast<uint32_t>(id)));
    EXPECT_EQ(ibv_wc_read_wc_flags(extended), static_cast<unsigned int>(IBV_WC_WITH_IMM));
    EXPECT_EQ(ibv_wc_read_qp_num(extended), b->qp_num);
    EXPECT_EQ(ibv_next_poll(extended), id == 1 ? 0 : ENOENT);
  }
  ibv_end_poll(extended);
  EXPECT_EQ(ibv_start_poll(extended, &poll_attr), ENOENT);
}

// A thread waits for the queue's lock, and finds the queue empty when it gets it.
TEST_F(ExtendedCompletionQueueTest, PollOfAnEmptyQueueReleasesTheQueue) {
  ibv_cq_ex* const extended = CreateWithTwoMessages();
  ibv_poll_cq_attr poll_attr = {};
  ASSERT_EQ(ibv_start_poll(extended, &poll_attr), 0);
  std::atomic<pid_t> waiter{0};
  std::thread other([&] {
    waiter = gettid();
    ibv_poll_cq_attr attr = {};
    EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
  });
  while (waiter == 0 || !IsAsleep(waiter)) std::this_thread::yield();
  EXPECT_EQ(ibv_next_poll(extended), 0);
  ibv_end_poll(extended);
  other.join();
  EXPECT_EQ(ibv_resize_cq(cq.get(), 32), 0) << "this waits until nobody polls";
}

}  // namespace
}  // namespace uroce::verbs::testing
