// Unreliable connections over the loopback path of one process: operations, refusals and errors.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <numeric>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

class UnreliableConnectionTest : public LoopbackTest {
 protected:
  void SetUp() override {
    const auto basic = Attributes(IBV_QPT_UC, cq.get(), receive_cq.get());
    ibv_qp_init_attr_ex attr = ExtendedAttributes(
        host.pd.get(), basic,
        IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
    a.reset(ibv_create_qp_ex(host.context.get(), &attr));
    b.reset(ibv_create_qp_ex(host.context.get(), &attr));
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    ConnectLoopback(a.get(), b.get());
    std::iota(host.buffer.begin(), host.buffer.begin() + kUpper, uint8_t{1});
  }

  Qp a, b;
};

TEST_F(UnreliableConnectionTest, LongMessageArrives) {
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 20'000), 7), 0);
  SendRequest send(IBV_WR_SEND_WITH_IMM, host.Sge(0, 10'000));
  send.imm_data = htobe32(0xabcd);
  ASSERT_EQ(send.Post(a.get()), 0);
  ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_SEND);
  wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wc.opcode, IBV_WC_RECV);
  EXPECT_EQ(wc.wr_id, 7u);
  EXPECT_EQ(wc.byte_len, 10'000u);
  EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_WITH_IMM));
  EXPECT_EQ(wc.imm_data, htobe32(0xabcd));
  EXPECT_EQ(wc.qp_num, b->qp_num);
  EXPECT_TRUE(Arrived(0, kUpper, 10'000));
}

TEST_F(UnreliableConnectionTest, WriteArrives) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
  ASSERT_NE(qp, nullptr);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(0, 0), 8), 0);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  qp->wr_id = 1;
  ibv_wr_rdma_write(qp, host.mr->rkey, host.address(kUpper));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(0), 5'000);
  qp->wr_id = 2;
  ibv_wr_rdma_write_imm(qp, host.mr->rkey, host.address(kUpper + 5'000), htobe32(3));
  ibv_wr_set_sge(qp, host.mr->lkey, host.address(5'000), 100);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  for (uint64_t id = 1; id <= 2; ++id) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(wc.wr_id, id);
  }
  const ibv_wc wc = WaitForCompletion(receive_cq.get());
  EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(wc.byte_len, 100u);
  EXPECT_EQ(wc.imm_data, htobe32(3));
  EXPECT_TRUE(Arrived(0, kUpper, 5'100));
}

TEST_F(UnreliableConnectionTest, OperationsOfReliableServicesOnlyCompleteInError) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                     IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_SEND_WITH_INV}) {
    SendRequest request(opcode, host.Sge(0, 8));
    if (opcode != IBV_WR_SEND_WITH_INV) request.Remote(host.address(kUpper), host.mr->rkey);
    ASSERT_EQ(request.Post(a.get()), 0) << opcode;
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_LOC_QP_OP_ERR) << opcode;
    EXPECT_EQ(Query(a.get()).qp_state, IBV_QPS_SQE) << opcode;
    ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  }
}

TEST_F(UnreliableConnectionTest, MessageWithoutAReceiveRequestIsDropped) {
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 3'000), 1).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 4'000), 9), 0);
  ExpectNothingReceived();
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(100, 2'000), 2).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).byte_len, 2'000u);
  EXPECT_TRUE(Arrived(100, kUpper, 2'000));
}

TEST_F(UnreliableConnectionTest, ForbiddenWriteIsDropped) {
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 8), 1);
  ASSERT_EQ(write.Remote(host.address(kUpper), host.mr->rkey ^ 0x100).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(host.buffer[kUpper], 0);
  EXPECT_EQ(Query(b.get()).qp_state, IBV_QPS_RTS);
}

// The send queue stops, the receive queue goes on, and RTS is one transition away (IBA 10.3.1.6).
TEST_F(UnreliableConnectionTest, LocalErrorStopsTheSendQueueOnly) {
  SendRequest unreadable(IBV_WR_SEND, host.Sge(0, 8), 1);
  unreadable.piece.lkey ^= 0xff00;
  SendRequest behind(IBV_WR_SEND, host.Sge(0, 8), 2);
  unreadable.next = &behind;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a.get(), &unreadable, &bad), 0);
  ibv_wc wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_NE(wc.vendor_err, 0u);
  wc = WaitForCompletion(cq.get());
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(Query(a.get()).qp_state, IBV_QPS_SQE);

  ASSERT_EQ(PostReceive(a.get(), host.Sge(kUpper, 8), 5), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 3).Post(b.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).wr_id, 3u);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 5u);

  ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), 6), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 4).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).wr_id, 6u);
}

}  // namespace
}  // namespace uroce::verbs::testing
