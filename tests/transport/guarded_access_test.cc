#include "transport/guarded_access.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/transport/fault_handler.h"

namespace uroce::transport {
namespace {

// Covers every size class with its ends, and lengths of several blocks.
constexpr size_t kMostBytes = 700;

std::vector<uint8_t> Numbered(size_t bytes) {
  std::vector<uint8_t> result(bytes);
  for (size_t i = 0; i < bytes; ++i) result[i] = static_cast<uint8_t>(i * 7 + i / 256 + 1);
  return result;
}

class GuardedAccessTest : public testing::Test {
 protected:
  FaultHandler handler_;
};

TEST_F(GuardedAccessTest, CopiesExactlyTheBytes) {
  const std::vector<uint8_t> source = Numbered(kMostBytes + 64);
  constexpr uint8_t kUntouched = 0xa5;
  for (size_t alignment = 0; alignment < 40; ++alignment) {
    for (size_t length = 0; length <= kMostBytes; ++length) {
      std::vector<uint8_t> destination(kMostBytes + 64, kUntouched);
      uint8_t* const to = destination.data() + 1 + alignment;
      const uint8_t* const from = source.data() + (alignment * 5) % 32;
      ASSERT_TRUE(GuardedCopy(to, from, length));
      ASSERT_EQ(std::memcmp(to, from, length), 0) << length << " bytes";
      ASSERT_EQ(to[-1], kUntouched);
      ASSERT_EQ(to[length], kUntouched) << length << " bytes";
    }
  }
}

// The last byte, the first, or all of the source or destination is inaccessible.
TEST_F(GuardedAccessTest, CopyFailsWhereverMemoryEnds) {
  const Pages pages(3);
  pages.Protect(0, PROT_NONE);
  pages.Protect(2, PROT_NONE);
  std::vector<uint8_t> ours(kMostBytes);
  uint8_t* const begin = pages.data() + pages.page_bytes();
  uint8_t* const end = begin + pages.page_bytes();
  for (size_t length = 1; length <= kMostBytes; ++length) {
    for (size_t outside = 1; outside <= length; outside += outside < 5 ? 1 : length / 3 + 1) {
      ASSERT_FALSE(GuardedCopy(ours.data(), end + outside - length, length)) << length;
      ASSERT_FALSE(GuardedCopy(end + outside - length, ours.data(), length)) << length;
      ASSERT_FALSE(GuardedCopy(ours.data(), begin - outside, length)) << length;
      ASSERT_FALSE(GuardedCopy(begin - outside, ours.data(), length)) << length;
    }
    ASSERT_TRUE(GuardedCopy(ours.data(), end - length, length));
    ASSERT_TRUE(GuardedCopy(end - length, ours.data(), length));
    ASSERT_TRUE(GuardedCopy(ours.data(), begin, length));
    ASSERT_TRUE(GuardedCopy(begin, ours.data(), length));
  }
}

TEST_F(GuardedAccessTest, NothingIsCopiedFromNowhere) {
  EXPECT_TRUE(GuardedCopy(nullptr, nullptr, 0));
  uint8_t byte;
  EXPECT_FALSE(GuardedCopy(&byte, nullptr, 1));
  // A non-canonical address: the processor raises another exception.
  EXPECT_FALSE(GuardedCopy(&byte, reinterpret_cast<void*>(uintptr_t{1} << 63), 1));
}

TEST_F(GuardedAccessTest, ReadOnlyMemoryCanBeReadOnly) {
  const Pages pages(1);
  pages.data()[0] = 42;
  auto* const number = reinterpret_cast<uint64_t*>(pages.data());
  pages.Protect(0, PROT_READ);
  uint8_t bytes[200];
  uint64_t original = 0;
  EXPECT_TRUE(GuardedCopy(bytes, pages.data(), sizeof bytes));
  EXPECT_FALSE(GuardedCopy(pages.data(), bytes, sizeof bytes));
  EXPECT_FALSE(GuardedStore(pages.data(), 1));
  EXPECT_FALSE(GuardedStore(number, uint64_t{1}));
  EXPECT_FALSE(GuardedFetchAdd(number, 1, &original));
  EXPECT_FALSE(GuardedCompareSwap(number, 42, 1, &original));
  EXPECT_EQ(*number, 42u);
}

TEST_F(GuardedAccessTest, ProtectedMemoryIsReachedWhereThatIsPossible) {
  const Pages pages(3);
  const ProtectedPages reached(pages);
  const std::vector<uint8_t> source = Numbered(2 * pages.page_bytes() + 100);
  std::vector<uint8_t> back(source.size());
  auto* const number = reinterpret_cast<uint64_t*>(pages.data() + 2 * pages.page_bytes() + 1'024);
  uint64_t original = 0;
  pages.TakeAway();
  EXPECT_TRUE(GuardedCopy(pages.data(), source.data(), source.size()));
  EXPECT_TRUE(GuardedCopy(back.data(), pages.data(), source.size()));
  EXPECT_EQ(back, source);
  EXPECT_TRUE(GuardedStore(pages.data(), 99));
  EXPECT_TRUE(GuardedCopy(back.data(), pages.data(), 1));
  EXPECT_EQ(back[0], 99);
  EXPECT_TRUE(GuardedStore(number, uint64_t{40}));
  EXPECT_TRUE(GuardedFetchAdd(number, 2, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_TRUE(GuardedCompareSwap(number, 41, 1, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_TRUE(GuardedCompareSwap(number, 42, 7, &original));
  pages.Protect(2, PROT_READ);
  EXPECT_EQ(*number, 7u);
}

TEST_F(GuardedAccessTest, AtomicsReturnTheOriginalValue) {
  uint64_t number = 40;
  uint64_t original = 0;
  EXPECT_TRUE(GuardedFetchAdd(&number, 2, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_EQ(number, 42u);
  EXPECT_TRUE(GuardedCompareSwap(&number, 41, 1, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_EQ(number, 42u);
  EXPECT_TRUE(GuardedCompareSwap(&number, 42, 1, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_EQ(number, 1u);
  uint8_t byte = 0;
  EXPECT_TRUE(GuardedStore(&byte, 7));
  EXPECT_EQ(byte, 7);
  EXPECT_TRUE(GuardedStore(&number, 0x0123'4567'89ab'cdef));
  EXPECT_EQ(number, 0x0123'4567'89ab'cdefu);
}

// SIGBUS.
TEST_F(GuardedAccessTest, FileThatWasTruncated) {
  const int fd = memfd_create("truncated", MFD_CLOEXEC);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(page)), 0);
  void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  uint8_t bytes[300] = {};
  uint64_t original = 0;
  EXPECT_TRUE(GuardedCopy(memory, bytes, sizeof bytes));
  ASSERT_EQ(ftruncate(fd, 0), 0);
  EXPECT_FALSE(GuardedCopy(memory, bytes, sizeof bytes));
  EXPECT_FALSE(GuardedCopy(bytes, memory, sizeof bytes));
  EXPECT_FALSE(GuardedFetchAdd(static_cast<uint64_t*>(memory), 1, &original));
  munmap(memory, page);
  close(fd);
}

TEST_F(GuardedAccessTest, OnlyGuardedInstructionsAreInTheTable) {
  EXPECT_EQ(GuardedResumeAddress(0), 0u);
  EXPECT_EQ(GuardedResumeAddress(reinterpret_cast<uintptr_t>(&std::memcpy)), 0u);
  EXPECT_EQ(GuardedResumeAddress(UINTPTR_MAX), 0u);
}

TEST(GuardedAccessDeathTest, AddressSanitizerSeesBothRanges) {
#ifdef UROCE_ADDRESS_SANITIZER
  std::vector<uint8_t> shorter(100);
  std::vector<uint8_t> longer(101);
  uint64_t number = 0;
  auto* const behind = reinterpret_cast<uint64_t*>(shorter.data() + 96);
  EXPECT_DEATH((void)GuardedCopy(shorter.data(), longer.data(), 101), "WRITE of size 101");
  EXPECT_DEATH((void)GuardedCopy(longer.data(), shorter.data(), 101), "READ of size 101");
  EXPECT_DEATH((void)GuardedStore(shorter.data() + 100, 1), "WRITE of size 1");
  EXPECT_DEATH((void)GuardedFetchAdd(behind, 1, &number), "WRITE of size 8");
#else
  GTEST_SKIP() << "not compiled with the address sanitizer";
#endif
}

}  // namespace
}  // namespace uroce::transport
