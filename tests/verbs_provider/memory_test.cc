// Memory regions and windows: registrations that succeed, and the errno of those that fail.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// Anonymous pages with the given protection.
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

// The errno of a registration; 0 if it succeeds. Undoes the registration.
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

// The two bits behind IBV_ACCESS_HUGETLB: FLUSH_GLOBAL, and FLUSH_PERSISTENT, which is not offered.
TEST(RegMrTest, IsFlushableButNotPersistent) {
  const Host host;
  const Pages pages(1, kReadWrite);
  constexpr int kFlushGlobal = 1 << 8;
  constexpr int kFlushPersistent = 1 << 9;
  EXPECT_EQ(Register(host, pages.at(0), 100, kFlushGlobal), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, Host::kAllAccess | kFlushGlobal), 0);
  EXPECT_EQ(Register(host, pages.at(0), 100, kFlushPersistent), EINVAL);
  EXPECT_EQ(Register(host, pages.at(0), 100, kFlushGlobal | kFlushPersistent), EINVAL);
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

TEST(RegMrTest, IovaThatWrapsAroundIsInvalid) {
  const Host host;
  const Pages pages(2, kReadWrite);
  constexpr uint64_t kLastPage = UINT64_MAX - Pages::kPage + 1;
  EXPECT_NE(Mr(ibv_reg_mr_iova(host.pd.get(), pages.at(0), Pages::kPage - 1, kLastPage, 0)),
            nullptr);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova(host.pd.get(), pages.at(0), Pages::kPage + 1, kLastPage, 0), nullptr);
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

TEST(ReregMrTest, ProtectionDomainOfAnotherContextIsInvalid) {
  const Host host;
  const Host other;
  EXPECT_NE(ibv_rereg_mr(host.mr.get(), IBV_REREG_MR_CHANGE_PD, other.pd.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(host.mr->pd, host.pd.get());
}

// In a list, pieces of a null region count with their length, but hold no bytes.
class NullMrTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPiece = 3'000;

  void SetUp() override {
    ASSERT_NE(null, nullptr);
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    a.reset(ibv_create_qp(host.pd.get(), &attr));
    b.reset(ibv_create_qp(host.pd.get(), &attr));
    ConnectLoopback(a.get(), b.get());
    for (size_t at = 0; at < host.buffer.size(); ++at) host.buffer[at] = Pattern(at);
  }
  static uint8_t Pattern(size_t at) { return static_cast<uint8_t>(1 + at % 251); }
  ibv_sge Null(uint64_t address) const {
    return {.addr = address, .length = kPiece, .lkey = null->lkey};
  }
  void SendFrom(std::vector<ibv_sge> from, std::vector<ibv_sge> to) {
    ibv_recv_wr receive = {
        .wr_id = 1, .next = nullptr, .sg_list = to.data(), .num_sge = static_cast<int>(to.size())};
    ibv_recv_wr* bad_receive = nullptr;
    ASSERT_EQ(ibv_post_recv(b.get(), &receive, &bad_receive), 0);
    ibv_send_wr send = {};
    send.sg_list = from.data();
    send.num_sge = static_cast<int>(from.size());
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad_send = nullptr;
    ASSERT_EQ(ibv_post_send(a.get(), &send, &bad_send), 0);
    for (int count = 0; count < 2; ++count) {
      EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    }
  }
  void ExpectBytes(size_t at, uint8_t value) {
    for (size_t i = at; i < at + kPiece; ++i) ASSERT_EQ(host.buffer[i], value) << i;
  }

  Host host;
  Mr null{ibv_alloc_null_mr(host.pd.get())};
  Cq cq = host.CreateCq(16);
  Qp a, b;
};

TEST_F(NullMrTest, ReadsAreZeroAtAnyAddress) {
  constexpr size_t kTo = 20'000;
  SendFrom({host.Sge(0, kPiece), Null(0), Null(UINT64_MAX - kPiece)}, {host.Sge(kTo, 3 * kPiece)});
  for (size_t i = 0; i < kPiece; ++i) ASSERT_EQ(host.buffer[kTo + i], Pattern(i));
  ExpectBytes(kTo + kPiece, 0);
  ExpectBytes(kTo + 2 * kPiece, 0);
}

TEST_F(NullMrTest, WritesAreLost) {
  constexpr size_t kTo = 20'000;
  SendFrom({host.Sge(0, 2 * kPiece)}, {Null(0x1234), host.Sge(kTo, kPiece)});
  for (size_t i = 0; i < kPiece; ++i) ASSERT_EQ(host.buffer[kTo + i], Pattern(kPiece + i));
  // Bytes written to the null region are not read back.
  SendFrom({Null(0x1234)}, {host.Sge(kTo, kPiece)});
  ExpectBytes(kTo, 0);
}

TEST_F(NullMrTest, RefusesPeerAccessAndChanges) {
  SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, 8));
  write.Remote(0, null->rkey);
  ASSERT_EQ(write.Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_NE(ibv_rereg_mr(null.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  ibv_sge piece = Null(0);
  EXPECT_EQ(ibv_advise_mr(host.pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &piece, 1), ENOENT);
  EXPECT_EQ(ibv_dealloc_pd(host.pd.get()), EBUSY);
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
