// Peers go on with memory that its owner has protected by mprotect() since it was registered, as
// with a NIC that has pinned the pages. Garbage collectors, checkpoints and distributed shared
// memory trap the program's own accesses by it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstring>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kBytes = 16'384;

class ProtectedMemoryTest : public LoopbackTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    ibv_qp_init_attr attr = RcAttributes(cq.get(), receive_cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    Register(Host::kAllAccess);
    for (size_t i = 0; i < kBytes; ++i) host.data()[i] = static_cast<uint8_t>(i * 3);
  }
  void TearDown() override { munmap(memory, kBytes); }

  void Register(int access) {
    mr.reset(ibv_reg_mr(host.pd.get(), memory, kBytes, access));
    ASSERT_NE(mr, nullptr);
  }
  void Protect() { ASSERT_EQ(mprotect(memory, kBytes, GetParam()), 0); }
  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory); }
  ibv_sge Piece(uint32_t length) const {
    return {.addr = address(), .length = length, .lkey = mr->lkey};
  }
  ibv_wc_status Run(ibv_wr_opcode opcode, const ibv_sge& local) {
    SendRequest request(opcode, local);
    EXPECT_EQ(request.Remote(address(), mr->rkey).Post(a.get()), 0);
    return WaitForCompletion(cq.get()).status;
  }
  bool HasArrived() {
    return mprotect(memory, kBytes, PROT_READ) == 0 &&
           std::memcmp(memory, host.data(), kBytes) == 0;
  }

  uint8_t* const memory = static_cast<uint8_t*>(
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Mr mr;
  Qp a, b;
};

TEST_P(ProtectedMemoryTest, IsWrittenByAPeer) {
  Protect();
  EXPECT_EQ(Run(IBV_WR_RDMA_WRITE, host.Sge(0, kBytes)), IBV_WC_SUCCESS);
  EXPECT_TRUE(HasArrived());
}

TEST_P(ProtectedMemoryTest, IsReadByAPeer) {
  std::memset(memory, 0x5a, kBytes);
  Protect();
  EXPECT_EQ(Run(IBV_WR_RDMA_READ, host.Sge(0, kBytes)), IBV_WC_SUCCESS);
  EXPECT_TRUE(HasArrived());
}

TEST_P(ProtectedMemoryTest, IsChangedByAtomics) {
  const uint64_t number = 40;
  std::memcpy(memory, &number, sizeof number);
  Protect();
  SendRequest add(IBV_WR_ATOMIC_FETCH_AND_ADD, host.Sge(0, 8));
  add.wr.atomic.remote_addr = address();
  add.wr.atomic.rkey = mr->rkey;
  add.wr.atomic.compare_add = 2;
  ASSERT_EQ(add.Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(mprotect(memory, kBytes, PROT_READ), 0);
  EXPECT_EQ(memory[0], 42);
}

TEST_P(ProtectedMemoryTest, IsReceivedInto) {
  Protect();
  ASSERT_EQ(PostReceive(b.get(), Piece(kBytes), 1), 0);
  EXPECT_EQ(Run(IBV_WR_SEND, host.Sge(0, kBytes)), IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(HasArrived());
}

TEST_P(ProtectedMemoryTest, IsSentFrom) {
  std::memset(memory, 0x5a, kBytes);
  Protect();
  ASSERT_EQ(PostReceive(b.get(), host.Sge(0, kBytes), 1), 0);
  EXPECT_EQ(Run(IBV_WR_SEND, Piece(kBytes)), IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(HasArrived());
}

// On-demand paging faults on a NIC, too.
TEST_P(ProtectedMemoryTest, IsOutOfReachOfAnOnDemandRegion) {
  Register(Host::kAllAccess | IBV_ACCESS_ON_DEMAND);
  Protect();
  EXPECT_EQ(Run(IBV_WR_RDMA_WRITE, host.Sge(0, 64)), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(ProtectedMemoryTest, IsOutOfReachOnceItIsUnmapped) {
  ASSERT_EQ(munmap(memory, kBytes), 0);
  EXPECT_EQ(Run(IBV_WR_RDMA_WRITE, host.Sge(0, 64)), IBV_WC_REM_ACCESS_ERR);
}

INSTANTIATE_TEST_SUITE_P(All, ProtectedMemoryTest, ::testing::Values(PROT_NONE, PROT_READ),
                         [](const auto& tested) {
                           return tested.param == PROT_NONE ? "None" : "ReadOnly";
                         });

}  // namespace
}  // namespace uroce::verbs::testing
