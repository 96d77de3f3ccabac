// Device memory, and regions of it.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kBytes = 10'000;
constexpr unsigned kAccess = Host::kAllAccess | IBV_ACCESS_ZERO_BASED;

class DeviceMemoryTest : public ::testing::Test {
 protected:
  Dm Allocate(size_t bytes, uint32_t log_alignment = 0, uint32_t mask = 0) {
    errno = 0;
    ibv_alloc_dm_attr attributes = {};
    attributes.length = bytes;
    attributes.log_align_req = log_alignment;
    attributes.comp_mask = mask;
    return Dm(ibv_alloc_dm(host_.context.get(), &attributes));
  }
  // The errno of a registration; 0 if it succeeds. Undoes the registration.
  int Register(ibv_dm* dm, uint64_t offset, size_t bytes, unsigned access) {
    errno = 0;
    const Mr mr(ibv_reg_dm_mr(host_.pd.get(), dm, offset, bytes, access));
    return mr == nullptr ? errno : 0;
  }
  uint64_t MaxBytes() {
    ibv_device_attr_ex attributes;
    EXPECT_EQ(ibv_query_device_ex(host_.context.get(), nullptr, &attributes), 0);
    return attributes.max_dm_size;
  }

  Host host_;
};

TEST_F(DeviceMemoryTest, IsCopiedToAndFrom) {
  const Dm dm = Allocate(kBytes);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(dm->context, host_.context.get());
  const std::string text = "text";
  std::string copy(text.size(), '?');
  ASSERT_EQ(ibv_memcpy_to_dm(dm.get(), kBytes - text.size(), text.data(), text.size()), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(copy.data(), dm.get(), kBytes - text.size(), text.size()), 0);
  EXPECT_EQ(copy, text);
}

TEST_F(DeviceMemoryTest, CopyBeyondItsEndIsAFault) {
  const Dm dm = Allocate(kBytes);
  std::array<uint8_t, 8> bytes = {};
  for (const uint64_t offset : {uint64_t{kBytes - 7}, uint64_t{kBytes + 1}, UINT64_MAX - 3}) {
    EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), offset, bytes.data(), bytes.size()), EFAULT);
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm.get(), offset, bytes.size()), EFAULT);
  }
}

// Device memory of a NIC is accessed in words.
TEST_F(DeviceMemoryTest, CopyOfPartsOfWordsIsInvalid) {
  const Dm dm = Allocate(kBytes);
  std::array<uint8_t, 8> bytes = {};
  for (const auto& [offset, length] : {std::pair{3, 4}, {4, 3}, {1, 3}}) {
    const auto count = static_cast<size_t>(length);
    EXPECT_EQ(ibv_memcpy_to_dm(dm.get(), static_cast<uint64_t>(offset), bytes.data(), count),
              EINVAL);
    EXPECT_EQ(ibv_memcpy_from_dm(bytes.data(), dm.get(), static_cast<uint64_t>(offset), count),
              EINVAL);
  }
}

TEST_F(DeviceMemoryTest, PeerAndLocalRequestsReachDeviceMemory) {
  const Dm dm = Allocate(kBytes);
  const Mr mr(ibv_reg_dm_mr(host_.pd.get(), dm.get(), 1'000, 2'000, kAccess));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->context, host_.context.get());
  EXPECT_EQ(mr->pd, host_.pd.get());
  EXPECT_EQ(mr->length, 2'000u);
  const Cq cq = host_.CreateCq(16);
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  const Qp requester(ibv_create_qp(host_.pd.get(), &attributes));
  const Qp responder(ibv_create_qp(host_.pd.get(), &attributes));
  ConnectLoopback(requester.get(), responder.get());

  std::memcpy(host_.data(), "written", 8);
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host_.Sge(0, 8))
                .Remote(/*address=*/500, mr->rkey)
                .Post(requester.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  std::array<char, 8> seen = {};
  ASSERT_EQ(ibv_memcpy_from_dm(seen.data(), dm.get(), 1'500, seen.size()), 0);
  EXPECT_STREQ(seen.data(), "written");

  // The region as local memory of a request: its addresses count from 0.
  const ibv_sge piece = {.addr = 500, .length = 8, .lkey = mr->lkey};
  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, piece)
                .Remote(host_.address(100), host_.mr->rkey)
                .Post(requester.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_STREQ(reinterpret_cast<const char*>(host_.data()) + 100, "written");

  ASSERT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host_.Sge(0, 8))
                .Remote(/*address=*/1'993, mr->rkey)
                .Post(requester.get()),
            0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DeviceMemoryTest, RegionsAreZeroBasedAndWithinIt) {
  const Dm dm = Allocate(kBytes);
  EXPECT_EQ(Register(dm.get(), 0, kBytes, kAccess), 0);
  EXPECT_EQ(Register(dm.get(), 1, kBytes - 1, kAccess), 0);
  EXPECT_EQ(Register(dm.get(), 1, kBytes, kAccess), EINVAL);
  EXPECT_EQ(Register(dm.get(), UINT64_MAX, 2, kAccess), EINVAL);
  EXPECT_EQ(Register(dm.get(), 0, kBytes, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  EXPECT_EQ(Register(dm.get(), 0, kBytes, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE), EINVAL);
}

TEST_F(DeviceMemoryTest, RegionKeepsDeviceMemoryInUseAndCannotBeChanged) {
  const Dm dm = Allocate(kBytes);
  Mr mr(ibv_reg_dm_mr(host_.pd.get(), dm.get(), 0, kBytes, kAccess));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm.get()), EBUSY);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_CMD);
  EXPECT_EQ(errno, EINVAL);
  mr.reset();
}

TEST_F(DeviceMemoryTest, WrongAttributesAreRefused) {
  EXPECT_EQ(Allocate(0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Allocate(kBytes, /*log_alignment=*/40), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(Allocate(kBytes, 0, /*mask=*/1), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DeviceMemoryTest, IsLimited) {
  const uint64_t most = MaxBytes();
  EXPECT_EQ(Allocate(most + 1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  Dm all = Allocate(most);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(Allocate(1), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  all.reset();
  EXPECT_NE(Allocate(1), nullptr);
}

}  // namespace
}  // namespace uroce::verbs::testing
