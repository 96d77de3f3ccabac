// The rights and ranges of memory keys, and atomics at their edges (libfabric #9987, #10911, UCX
// #9771, rpma #890).
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <set>

#include "tests/verbs_provider/reliable_pair_fixture.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint64_t kOld = 0x0102'0304'0506'0708;
constexpr uint64_t kNew = 0xaabb'ccdd'eeff'0011;

class KeyCases : public ReliablePairTest {
 protected:
  Mr Register(size_t offset, size_t bytes, int access) {
    return Mr(ibv_reg_mr(host.pd.get(), host.data() + offset, bytes, access));
  }
  // The status of a request of `a`. After an error the two queue pairs are connected again.
  ibv_wc_status Outcome(SendRequest& request, uint64_t address, uint32_t rkey) {
    EXPECT_EQ(request.Remote(address, rkey).Post(a.get()), 0);
    const ibv_wc_status status = WaitForCompletion(cq.get()).status;
    if (status != IBV_WC_SUCCESS) {
      EXPECT_EQ(Modify(a.get(), IBV_QPS_RESET), 0);
      EXPECT_EQ(Modify(b.get(), IBV_QPS_RESET), 0);
      ConnectLoopback(a.get(), b.get());
    }
    return status;
  }
  ibv_wc_status Write(uint32_t bytes, uint64_t address, uint32_t rkey) {
    SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, bytes));
    return Outcome(write, address, rkey);
  }
  ibv_wc_status Read(uint32_t bytes, uint64_t address, uint32_t rkey) {
    SendRequest read(IBV_WR_RDMA_READ, host.Sge(0, bytes));
    return Outcome(read, address, rkey);
  }
  ibv_wc_status Atomic(ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap, uint64_t address,
                       uint32_t rkey, size_t result = 0) {
    SendRequest atomic(opcode, host.Sge(result, 8));
    atomic.wr.atomic.compare_add = compare_add;
    atomic.wr.atomic.swap = swap;
    return Outcome(atomic, address, rkey);
  }
};

TEST_F(KeyCases, KeysOfOneMemoryHaveTheirOwnRights) {
  const Mr writable = Register(kUpper, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const Mr readable = Register(kUpper, 8192, IBV_ACCESS_REMOTE_READ);
  EXPECT_NE(writable->rkey, readable->rkey);
  EXPECT_NE(writable->lkey, readable->lkey);
  const uint64_t there = host.address(kUpper);
  EXPECT_EQ(Write(64, there, writable->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(64, there, readable->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Read(64, there, readable->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Read(64, there, writable->rkey), IBV_WC_REM_ACCESS_ERR);
  SendRequest into_read_only(IBV_WR_RDMA_READ, {there, 64, readable->lkey});
  EXPECT_EQ(Outcome(into_read_only, host.address(), host.mr->rkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(KeyCases, LastByteIsReachedAndTheNextIsNot) {
  const Mr odd = Register(kUpper + 100, 33, Host::kAllAccess);
  const uint64_t first = host.address(kUpper + 100);
  EXPECT_EQ(Write(1, first + 32, odd->rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Write(1, first + 33, odd->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Write(1, first - 1, odd->rkey), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Write(64, uint64_t{0} - 32, odd->rkey), IBV_WC_REM_ACCESS_ERR) << "around 2^64";
  SendRequest past_the_buffer(IBV_WR_RDMA_WRITE, host.Sge((1 << 16) - 4, 8));
  EXPECT_EQ(Outcome(past_the_buffer, first, odd->rkey), IBV_WC_LOC_PROT_ERR);
}

// A late WRITE by the key of a region that is gone must not find a region that came after it.
TEST_F(KeyCases, KeyOfADeadRegionIsRefusedAndNotGivenOutAgainSoon) {
  Mr dead = Register(kUpper, 8192, Host::kAllAccess);
  const Mr other = Register(kUpper, 8192, Host::kAllAccess);
  const uint32_t key = dead->rkey;
  dead.reset();
  EXPECT_EQ(Write(64, host.address(kUpper), key), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(Write(64, host.address(kUpper), other->rkey), IBV_WC_SUCCESS);
  for (int i = 0; i < 2000; ++i) ASSERT_NE(Register(0, 64, 0)->rkey, key) << i;
}

TEST_F(KeyCases, CompareThatFailsGivesTheOldValue) {
  Word(kUpper) = kOld;
  const uint64_t there = host.address(kUpper);
  const uint32_t rkey = host.mr->rkey;
  EXPECT_EQ(Atomic(IBV_WR_ATOMIC_CMP_AND_SWP, kOld, kNew, there, rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Word(kUpper), kNew);
  EXPECT_EQ(Word(0), kOld);
  EXPECT_EQ(Atomic(IBV_WR_ATOMIC_CMP_AND_SWP, 5, 6, there, rkey), IBV_WC_SUCCESS);
  EXPECT_EQ(Word(kUpper), kNew);
  EXPECT_EQ(Word(0), kNew);
}

TEST_F(KeyCases, AddWrapsAround) {
  Word(kUpper) = ~uint64_t{0};
  EXPECT_EQ(Atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, host.address(kUpper), host.mr->rkey),
            IBV_WC_SUCCESS);
  EXPECT_EQ(Word(kUpper), 1u);
  EXPECT_EQ(Word(0), ~uint64_t{0});
}

TEST_F(KeyCases, MisalignedAtomicIsAnInvalidRequest) {
  for (const size_t offset : {1, 4, 7}) {
    EXPECT_EQ(
        Atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, host.address(kUpper + offset), host.mr->rkey),
        IBV_WC_REM_INV_REQ_ERR)
        << offset;
  }
}

TEST_F(KeyCases, ResultOfAnAtomicNeedsNoAlignment) {
  Word(kUpper) = 7;
  EXPECT_EQ(Atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, host.address(kUpper), host.mr->rkey,
                   /*result=*/3),
            IBV_WC_SUCCESS);
  uint64_t result = 0;
  std::memcpy(&result, host.data() + 3, sizeof result);
  EXPECT_EQ(result, 7u);
}

TEST_F(KeyCases, AtomicWithoutTheRightIsRefused) {
  const Mr no_atomics = Register(kUpper, 64, Host::kAllAccess & ~IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_EQ(Atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, host.address(kUpper), no_atomics->rkey),
            IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace uroce::verbs::testing
