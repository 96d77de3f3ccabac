// Regions that are paged on demand: one region for all memory, and prefetch advice.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kPage = 4'096;
constexpr size_t kPages = 4;
constexpr int kOnDemand = Host::kAllAccess | IBV_ACCESS_ON_DEMAND;

class OnDemandTest : public ::testing::Test {
 protected:
  OnDemandTest()
      : memory_(static_cast<uint8_t*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    madvise(memory_, kPages * kPage, MADV_NOHUGEPAGE);  // page by page
  }
  ~OnDemandTest() override { munmap(memory_, kPages * kPage); }

  Mr Register(int access = kOnDemand) {
    return Mr(ibv_reg_mr(host_.pd.get(), memory_, kPages * kPage, access));
  }
  int Advise(const ibv_mr& mr, ibv_advise_mr_advice advice, uint64_t offset, uint32_t bytes,
             uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
    ibv_sge range = {
        .addr = reinterpret_cast<uintptr_t>(memory_) + offset, .length = bytes, .lkey = mr.lkey};
    return ibv_advise_mr(host_.pd.get(), advice, flags, &range, 1);
  }
  bool IsResident(size_t page) const {
    unsigned char resident = 0;
    EXPECT_EQ(mincore(memory_ + page * kPage, kPage, &resident), 0);
    return (resident & 1) != 0;
  }

  Host host_;
  uint8_t* const memory_;
};

TEST_F(OnDemandTest, PrefetchPopulatesTheRangeAlone) {
  const Mr mr = Register();
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(Advise(*mr, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, kPages * kPage), 0);
  EXPECT_FALSE(IsResident(1));
  EXPECT_EQ(Advise(*mr, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, kPage, kPage), 0);
  EXPECT_TRUE(IsResident(1));
  EXPECT_FALSE(IsResident(2));
  EXPECT_EQ(Advise(*mr, IBV_ADVISE_MR_ADVICE_PREFETCH, 3 * kPage - 1, 1, /*flags=*/0), 0);
  EXPECT_TRUE(IsResident(2));
  EXPECT_FALSE(IsResident(3));
}

TEST_F(OnDemandTest, WrongAdviceIsRefused) {
  const Mr mr = Register();
  const Mr read_only = Register(IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(read_only, nullptr);
  const Pd other(ibv_alloc_pd(host_.context.get()));
  constexpr auto kPrefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  EXPECT_EQ(Advise(*mr, static_cast<ibv_advise_mr_advice>(3), 0, kPage), EOPNOTSUPP);
  EXPECT_EQ(Advise(*mr, kPrefetch, 0, kPage, /*flags=*/2), EINVAL);
  EXPECT_EQ(Advise(*mr, kPrefetch, kPage, kPages * kPage), ENOENT);
  EXPECT_EQ(Advise(*read_only, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, kPage), EPERM);
  ibv_sge range = {.addr = reinterpret_cast<uintptr_t>(memory_), .length = kPage, .lkey = mr->lkey};
  EXPECT_EQ(ibv_advise_mr(other.get(), kPrefetch, 0, &range, 1), ENOENT);
  EXPECT_EQ(ibv_advise_mr(host_.pd.get(), kPrefetch, 0, nullptr, 0), 0);
}

// A prefetch in the background reports no fault: the access itself will fail.
TEST_F(OnDemandTest, MemoryThatIsNotThereIsAFaultWhenFlushed) {
  const Mr mr = Register();
  ASSERT_EQ(mprotect(memory_, kPage, PROT_NONE), 0);
  constexpr auto kPrefetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
  EXPECT_EQ(Advise(*mr, kPrefetch, 0, kPage), EFAULT);
  EXPECT_EQ(Advise(*mr, kPrefetch, 0, kPage, /*flags=*/0), 0);
  EXPECT_EQ(Advise(*mr, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, kPage), 0);
}

TEST_F(OnDemandTest, ImplicitRegionIsAllMemory) {
  const Mr all(ibv_reg_mr(host_.pd.get(), nullptr, SIZE_MAX, kOnDemand));
  ASSERT_NE(all, nullptr);
  const Cq cq = host_.CreateCq(16);
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  const Qp requester(ibv_create_qp(host_.pd.get(), &attributes));
  const Qp responder(ibv_create_qp(host_.pd.get(), &attributes));
  ConnectLoopback(requester.get(), responder.get());
  const auto address = reinterpret_cast<uintptr_t>(memory_);
  memory_[0] = 17;

  const ibv_sge piece = {.addr = address, .length = 1, .lkey = all->lkey};
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, piece)
                .Remote(address + 2 * kPage, all->rkey)
                .Post(requester.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(memory_[2 * kPage], 17);

  ASSERT_EQ(mprotect(memory_ + 3 * kPage, kPage, PROT_NONE), 0);
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, piece)
                .Remote(address + 3 * kPage, all->rkey)
                .Post(requester.get()),
            0);
  EXPECT_NE(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace uroce::verbs::testing
