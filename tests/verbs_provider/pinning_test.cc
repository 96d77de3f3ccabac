#include "verbs_provider/objects/pinning.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace uroce::verbs {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// Four pages: readable and writable, read-only, inaccessible, not mapped.
class PinningTest : public ::testing::Test {
 protected:
  void SetUp() override {
    memory_ = static_cast<uint8_t*>(
        mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    ASSERT_EQ(mprotect(memory_ + kPage, kPage, PROT_READ), 0);
    ASSERT_EQ(mprotect(memory_ + 2 * kPage, kPage, PROT_NONE), 0);
    ASSERT_EQ(munmap(memory_ + 3 * kPage, kPage), 0);
  }
  void TearDown() override { munmap(memory_, 3 * kPage); }

  uint8_t* page(int i) const { return memory_ + static_cast<size_t>(i) * kPage; }

  uint8_t* memory_ = nullptr;
};

bool IsResident(void* page) {
  unsigned char residency = 0;
  EXPECT_EQ(mincore(page, kPage, &residency), 0);
  return (residency & 1) != 0;
}

TEST_F(PinningTest, WritablePageServesBothPurposes) {
  EXPECT_EQ(PinPages(page(0), kPage, PinFor::kReading), 0);
  EXPECT_EQ(PinPages(page(0), kPage, PinFor::kWriting), 0);
}

TEST_F(PinningTest, ReadOnlyPageServesReadingOnly) {
  EXPECT_EQ(PinPages(page(1), kPage, PinFor::kReading), 0);
  EXPECT_EQ(PinPages(page(1), kPage, PinFor::kWriting), EFAULT);
  EXPECT_EQ(PinPages(page(0), 2 * kPage, PinFor::kWriting), EFAULT);
}

TEST_F(PinningTest, InaccessibleAndUnmappedPagesAreAFault) {
  EXPECT_EQ(PinPages(page(2), kPage, PinFor::kReading), EFAULT);
  EXPECT_EQ(PinPages(page(3), kPage, PinFor::kReading), EFAULT);
  EXPECT_EQ(PinPages(page(3), kPage, PinFor::kWriting), EFAULT);
  EXPECT_EQ(PinPages(page(0), 4 * kPage, PinFor::kReading), EFAULT);
}

TEST_F(PinningTest, OneByteReachesItsWholePageOnly) {
  EXPECT_EQ(PinPages(page(1) - 1, 1, PinFor::kWriting), 0);
  EXPECT_EQ(PinPages(page(1) - 1, 2, PinFor::kWriting), EFAULT);
}

TEST_F(PinningTest, EmptyRangeCountsThePageItPointsInto) {
  EXPECT_EQ(PinPages(page(0), 0, PinFor::kReading), EINVAL);
  EXPECT_EQ(PinPages(page(0) + 16, 0, PinFor::kReading), 0);
  EXPECT_EQ(PinPages(page(2) + 16, 0, PinFor::kReading), EFAULT);
}

TEST_F(PinningTest, RangeThatWrapsAroundIsInvalid) {
  EXPECT_EQ(PinPages(page(0), SIZE_MAX, PinFor::kReading), EINVAL);
  auto* const near_the_end = reinterpret_cast<void*>(UINTPTR_MAX - 100);
  EXPECT_EQ(PinPages(near_the_end, 50, PinFor::kReading), EINVAL);
}

TEST_F(PinningTest, WritingPopulatesThePages) {
  ASSERT_FALSE(IsResident(page(0)));
  ASSERT_EQ(PinPages(page(0) + 100, 8, PinFor::kWriting), 0);
  EXPECT_TRUE(IsResident(page(0)));
}

// Touching is the fallback for kernels before 5.14, which lack MADV_POPULATE.
TEST_F(PinningTest, TouchingFindsTheSameAsPopulating) {
  EXPECT_EQ(TouchPages(page(0), kPage, PinFor::kReading), 0);
  EXPECT_EQ(TouchPages(page(0), kPage, PinFor::kWriting), 0);
  EXPECT_EQ(TouchPages(page(1), kPage, PinFor::kReading), 0);
  EXPECT_EQ(TouchPages(page(1), kPage, PinFor::kWriting), EFAULT);
  EXPECT_EQ(TouchPages(page(2), kPage, PinFor::kReading), EFAULT);
  EXPECT_EQ(TouchPages(page(3), kPage, PinFor::kReading), EFAULT);
  EXPECT_EQ(TouchPages(page(3), kPage, PinFor::kWriting), EFAULT);
}

TEST_F(PinningTest, TouchingForWritingPopulatesAndChangesNothing) {
  ASSERT_FALSE(IsResident(page(0)));
  ASSERT_EQ(TouchPages(page(0), kPage, PinFor::kWriting), 0);
  EXPECT_TRUE(IsResident(page(0)));

  std::memset(page(0), 0x5a, kPage);
  ASSERT_EQ(TouchPages(page(0), kPage, PinFor::kWriting), 0);
  for (size_t i = 0; i < kPage; ++i) ASSERT_EQ(page(0)[i], 0x5a);
}

}  // namespace
}  // namespace uroce::verbs
