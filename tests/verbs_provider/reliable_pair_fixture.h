#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <numeric>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {

// `a` sends from the lower half of the buffer, `b` receives into the upper half.
class ReliablePairTest : public LoopbackTest {
 protected:
  void SetUp() override {
    a = Create();
    b = Create();
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    ConnectLoopback(a.get(), b.get());
    std::iota(host.buffer.begin(), host.buffer.end(), uint8_t{1});
    std::fill(host.buffer.begin() + kUpper, host.buffer.end(), uint8_t{0});
  }

  Qp Create() {
    constexpr uint64_t kEveryOperation =
        IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
        IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
        IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_ATOMIC_WRITE;
    const ibv_qp_init_attr basic = RcAttributes(cq.get(), receive_cq.get());
    ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, kEveryOperation);
    return Qp(ibv_create_qp_ex(host.context.get(), &attr));
  }

  uint64_t& Word(size_t offset) { return *reinterpret_cast<uint64_t*>(host.data() + offset); }

  void ExpectSuccess(ibv_wc_opcode opcode, uint64_t id = 1) {
    const ibv_wc wc = WaitForCompletion(cq.get());
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.wr_id, id);
    EXPECT_EQ(wc.qp_num, a->qp_num);
  }

  Qp a, b;
};

}  // namespace uroce::verbs::testing
