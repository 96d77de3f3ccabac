// Memory regions and windows: what can be registered, and what the errno is if not.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// Pages of our own with the given protection.
class Pages {
 public:
  Pages(size_t count, int protection)
      : bytes_(count * kPage),
        memory_(mmap(nullptr, bytes_, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  static constexpr size_t kPage = 4096;
  uint8_t* at(size_t offset) const { return static_cast<uint8_t*>(memory_) + offset; }

 private:
  size_t bytes_;
  void* memory_;
};

// The errno of a registration; 0 if it succeeds, and is undone.
int Register(const Host& host, void* address, size_t length, int access) {
  errno = 0;
  const Mr mr(ibv_reg_mr(host.pd.get(), address, length, access));
  return mr == nullptr ? errno : 0;
}

TEST(RegMrTest, WritableMemoryTakesEveryAccess) {
  const Host host;
  const Pages pages(2, kReadWrite);
  EXPECT_EQ(Register(host, pages.at(0), 2 * Pages::kPage, Host::kAllAccess), 0);
  EXPECT_EQ(Register(host, pages.at(1), 1, 0), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_RELAXED_ORDERING), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_HUGETLB), 0);
}

// IBA 10.6.3.2.
TEST(RegMrTest, RemoteChangeWithoutLocalWriteIsInvalid) {
  const Host host;
  const Pages pages(1, kReadWrite);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_REMOTE_READ), 0);
}

TEST(RegMrTest, UnknownAccessIsInvalid) {
  const Host host;
  const Pages pages(1, kReadWrite);
  EXPECT_EQ(Register(host, pages.at(0), 100, 1 << 15), EINVAL);
}

TEST(RegMrTest, ReadOnlyMemoryCannotBeWritten) {
  const Host host;
  const Pages pages(1, PROT_READ);
  EXPECT_EQ(Register(host, pages.at(0), 100, 0), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_MW_BIND), EFAULT);
}

TEST(RegMrTest, MemoryThatIsNotThereIsAFault) {
  const Host host;
  const Pages pages(2, kReadWrite);
  ASSERT_EQ(munmap(pages.at(Pages::kPage), Pages::kPage), 0);
  EXPECT_EQ(Register(host, pages.at(0), Pages::kPage, Host::kAllAccess), 0);
  EXPECT_EQ(Register(host, pages.at(0), Pages::kPage + 1, Host::kAllAccess), EFAULT);
  EXPECT_EQ(Register(host, pages.at(0), Pages::kPage + 1, 0), EFAULT);
  EXPECT_EQ(Register(host, nullptr, 100, 0), EFAULT);
}

TEST(RegMrTest, OnDemandMemoryNeedNotBeThereYet) {
  const Host host;
  const Pages pages(1, PROT_NONE);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(Register(host, pages.at(0), 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND), 0);
}

TEST(RegMrTest, LengthZeroIsValidInsideAPage) {
  const Host host;
  const Pages pages(1, kReadWrite);
  EXPECT_EQ(Register(host, pages.at(0), 0, 0), EINVAL);
  EXPECT_EQ(Register(host, pages.at(8), 0, 0), 0);
}

TEST(RegMrTest, LengthThatWrapsAroundIsInvalid) {
  const Host host;
  const Pages pages(1, kReadWrite);
  EXPECT_EQ(Register(host, pages.at(0), SIZE_MAX, 0), EINVAL);
}

TEST(RegMrTest, KeysNameTheRegion) {
  const Host host;
  EXPECT_NE(host.mr->lkey, 0u);
  EXPECT_EQ(host.mr->lkey, host.mr->rkey);
  EXPECT_EQ(host.mr->pd, host.pd.get());
  EXPECT_EQ(host.mr->addr, host.buffer.data());
  EXPECT_EQ(host.mr->length, host.buffer.size());
}

TEST(RegMrTest, IovaHasTheOffsetOfTheAddressInItsPage) {
  const Host host;
  const Pages pages(1, kReadWrite);
  const Mr mr(ibv_reg_mr_iova(host.pd.get(), pages.at(64), 100, 0x7000'0040, 0));
  EXPECT_NE(mr, nullptr);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova(host.pd.get(), pages.at(64), 100, 0x7000'0000, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(RegMrTest, ProtectionDomainInUseIsBusy) {
  const Host host;
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);
}

TEST(ReregMrTest, EveryPartCanChange) {
  const Host host;
  const Pages pages(2, kReadWrite);
  const Pd other(ibv_alloc_pd(host.context.get()));
  const Mr mr(ibv_reg_mr(host.pd.get(), pages.at(0), 100, 0));
  ASSERT_NE(mr, nullptr);
  const uint32_t lkey = mr->lkey;

  EXPECT_EQ(
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, Host::kAllAccess), 0);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.at(Pages::kPage),
                         200, 0),
            0);
  EXPECT_EQ(mr->addr, pages.at(Pages::kPage));
  EXPECT_EQ(mr->length, 200u);
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);  // the host's own region
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other.get());
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
  EXPECT_EQ(mr->lkey, lkey);
}

TEST(ReregMrTest, RefusedChangeLeavesTheOldRegion) {
  const Host host;
  const Pages read_only(1, PROT_READ);
  const Mr mr(ibv_reg_mr(host.pd.get(), read_only.at(0), 100, 0));
  ASSERT_NE(mr, nullptr);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                         IBV_ACCESS_LOCAL_WRITE),
            0);
  EXPECT_EQ(mr->addr, read_only.at(0));
  EXPECT_EQ(mr->length, 100u);
}

TEST(AllocMwTest, BothTypesExist) {
  const Host host;
  const Mw first(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_1));
  const Mw second(ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->type, IBV_MW_TYPE_1);
  EXPECT_EQ(second->pd, host.pd.get());
  EXPECT_NE(first->rkey, second->rkey);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(host.pd.get(), static_cast<ibv_mw_type>(3)), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace uroce::verbs::testing
