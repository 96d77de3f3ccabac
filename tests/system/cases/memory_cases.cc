// Memory as programs register it: read-only, sparse, shared, on the stack, by the hundred thousand.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/verbs_provider/reliable_pair_fixture.h"

namespace uroce::verbs::testing {
namespace {

constexpr size_t kPage = 4096;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// A mapping that ends with its object.
class Mapping {
 public:
  Mapping(size_t bytes, int protection, int flags, int fd = -1)
      : bytes_(bytes), memory_(mmap(nullptr, bytes, protection, flags, fd, 0)) {}
  ~Mapping() {
    if (exists()) munmap(memory_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool exists() const { return memory_ != MAP_FAILED; }
  uint8_t* data() const { return static_cast<uint8_t*>(memory_); }
  uint64_t address(size_t offset = 0) const { return reinterpret_cast<uint64_t>(memory_) + offset; }

 private:
  size_t bytes_;
  void* memory_;
};

// A file of `bytes` bytes in memory.
int MemoryFile(size_t bytes) {
  const int fd = memfd_create("case", MFD_CLOEXEC);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}

class MemoryCases : public ReliablePairTest {
 protected:
  Mr Register(const void* memory, size_t bytes, int access) {
    errno = 0;
    return Mr(ibv_reg_mr(host.pd.get(), const_cast<void*>(memory), bytes, access));
  }
  // Writes the first `bytes` bytes of the buffer to `address` in a region.
  void Write(uint64_t address, const ibv_mr* mr, uint32_t bytes) {
    SendRequest write(IBV_WR_RDMA_WRITE, host.Sge(0, bytes));
    ASSERT_EQ(write.Remote(address, mr->rkey).Post(a.get()), 0);
    ExpectSuccess(IBV_WC_RDMA_WRITE);
  }
  bool Holds(const uint8_t* memory, size_t bytes) const {
    return std::memcmp(memory, host.buffer.data(), bytes) == 0;
  }
};

// mxl #516, libfabric #6467, UCX #4924: memory that the program itself may only read. The kernel
// pins it for reading: it registers without LOCAL_WRITE, and serves SENDs and a peer's READ.
class ReadOnlyMemory : public MemoryCases, public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr size_t kBytes = 2 * kPage;

  void SetUp() override {
    MemoryCases::SetUp();
    char path[] = "/tmp/uroce-case-XXXXXX";
    const int writable = mkstemp(path);
    const std::vector<uint8_t> content(kBytes, 'r');
    ASSERT_EQ(write(writable, content.data(), kBytes), static_cast<ssize_t>(kBytes));
    close(writable);
    file_ = open(path, O_RDONLY | O_CLOEXEC);
    unlink(path);
    ASSERT_GE(file_, 0);
  }
  void TearDown() override { close(file_); }

  const uint8_t* Memory() {
    alignas(kPage) static const uint8_t kConstant[kBytes] = {'r', 'o'};
    if (GetParam() == "Constant") return kConstant;
    const bool is_file = GetParam() != "Anonymous";
    const int sharing = GetParam() == "SharedFile" ? MAP_SHARED : MAP_PRIVATE;
    mapping_ = std::make_unique<Mapping>(
        kBytes, PROT_READ, is_file ? sharing : sharing | MAP_ANONYMOUS, is_file ? file_ : -1);
    EXPECT_TRUE(mapping_->exists());
    return mapping_->data();
  }

 private:
  int file_ = -1;
  std::unique_ptr<Mapping> mapping_;
};

TEST_P(ReadOnlyMemory, WithLocalWriteIsAFault) {
  EXPECT_EQ(Register(Memory(), kBytes, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_P(ReadOnlyMemory, IsReadByAPeer) {
  const uint8_t* const memory = Memory();
  const Mr mr = Register(memory, kBytes, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(mr, nullptr);
  SendRequest read(IBV_WR_RDMA_READ, host.Sge(0, kBytes));
  ASSERT_EQ(read.Remote(reinterpret_cast<uint64_t>(memory), mr->rkey).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_RDMA_READ);
  EXPECT_TRUE(Holds(memory, kBytes));
}

TEST_P(ReadOnlyMemory, IsSent) {
  const uint8_t* const memory = Memory();
  const Mr mr = Register(memory, kBytes, 0);
  ASSERT_NE(mr, nullptr);
  ASSERT_EQ(PostReceive(b.get(), host.Sge(0, kBytes), 9), 0);
  const ibv_sge piece = {reinterpret_cast<uint64_t>(memory), kBytes, mr->lkey};
  ASSERT_EQ(SendRequest(IBV_WR_SEND, piece).Post(a.get()), 0);
  ExpectSuccess(IBV_WC_SEND);
  EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(Holds(memory, kBytes));
}

INSTANTIATE_TEST_SUITE_P(EveryKind, ReadOnlyMemory,
                         ::testing::Values("Anonymous", "SharedFile", "PrivateFile", "Constant"),
                         [](const auto& instance) { return instance.param; });

// Pages behind the end of a file cannot be pinned: registering them is a fault, as in the
// kernel, and not a SIGBUS later.
TEST_F(MemoryCases, MappingBeyondTheEndOfItsFileIsAFault) {
  const int fd = MemoryFile(kPage);
  const Mapping mapping(4 * kPage, kReadWrite, MAP_SHARED, fd);
  EXPECT_EQ(Register(mapping.data(), 4 * kPage, Host::kAllAccess), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_NE(Register(mapping.data(), kPage, Host::kAllAccess), nullptr);
  close(fd);
}

// A page without access in the middle of good ones cannot be pinned.
TEST_F(MemoryCases, ProtectedPageInsideTheRangeIsAFault) {
  const Mapping mapping(3 * kPage, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS);
  ASSERT_EQ(mprotect(mapping.data() + kPage, kPage, PROT_NONE), 0);
  EXPECT_EQ(Register(mapping.data(), 3 * kPage, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

long ResidentPages() {
  FILE* const statm = fopen("/proc/self/statm", "r");
  long total = 0;
  long resident = 0;
  EXPECT_EQ(fscanf(statm, "%ld %ld", &total, &resident), 2);
  fclose(statm);
  return resident;
}

// Assise #26, Mooncake #3845: reserved memory of up to a terabyte. On demand it registers without a
// page being touched, and its far end is reached.
TEST_F(MemoryCases, SparseMemoryOnDemandStaysSparse) {
  for (const int bits : {29, 36, 40}) {
    const size_t bytes = size_t{1} << bits;
    const Mapping mapping(bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (!mapping.exists()) GTEST_SKIP() << "this system reserves no 2^" << bits << " bytes";
    const long before = ResidentPages();
    const Mr mr = Register(mapping.data(), bytes, Host::kAllAccess | IBV_ACCESS_ON_DEMAND);
    ASSERT_NE(mr, nullptr) << "2^" << bits << " bytes";
    Write(mapping.address(bytes - kPage), mr.get(), kPage);
    EXPECT_TRUE(Holds(mapping.data() + bytes - kPage, kPage));
    EXPECT_LT(ResidentPages() - before, 4096) << "2^" << bits << " bytes";
  }
}

// Shared memory of several processes: a peer's WRITE into one mapping is seen through the other.
TEST_F(MemoryCases, WriteIsSeenThroughTheOtherMappingOfTheFile) {
  const int fd = MemoryFile(kPage);
  const Mapping registered(kPage, kReadWrite, MAP_SHARED, fd);
  const Mapping other(kPage, PROT_READ, MAP_SHARED, fd);
  const Mr mr = Register(registered.data(), kPage, Host::kAllAccess);
  ASSERT_NE(mr, nullptr);
  Write(registered.address(), mr.get(), kPage);
  EXPECT_TRUE(Holds(other.data(), kPage));
  close(fd);
}

// Small programs register buffers of their stack.
TEST_F(MemoryCases, StackIsWritten) {
  uint8_t buffer[2 * kPage] = {};
  const Mr mr = Register(buffer, sizeof buffer, Host::kAllAccess);
  ASSERT_NE(mr, nullptr);
  Write(reinterpret_cast<uint64_t>(buffer) + 100, mr.get(), kPage);
  EXPECT_TRUE(Holds(buffer + 100, kPage));
}

// Pages of the kernel's own (vvar) have no page structure to pin.
TEST_F(MemoryCases, KernelsPagesAreAFault) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  int found = 0;
  while (fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::strstr(line, "[vvar") == nullptr || sscanf(line, "%lx-%lx", &begin, &end) != 2)
      continue;
    ++found;
    EXPECT_EQ(Register(reinterpret_cast<void*>(begin), end - begin, 0), nullptr) << line;
    EXPECT_EQ(errno, EFAULT) << line;
  }
  fclose(maps);
  if (found == 0) GTEST_SKIP() << "this kernel shows no vvar";
}

// UCX, 3FS and Ceph keep a region for each buffer. The last of 100,000 works as the first, and they
// go in another order than they came.
TEST_F(MemoryCases, HundredThousandOverlappingRegionsWork) {
  constexpr size_t kRegions = 100'000;
  std::vector<Mr> regions;
  for (size_t i = 0; i < kRegions; ++i) {
    regions.push_back(Register(host.data() + i % 1000, 8192, Host::kAllAccess));
    ASSERT_NE(regions.back(), nullptr) << i;
  }
  for (const size_t i : {size_t{0}, kRegions - 1}) {
    std::memset(host.data() + 4096, 0, 64);
    Write(reinterpret_cast<uint64_t>(regions[i]->addr) + 4096, regions[i].get(), 64);
  }
  for (size_t first : {0, 1}) {
    for (size_t i = first; i < kRegions; i += 2) regions[i].reset();
  }
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Mooncake and LMCache register tens of gigabytes when they start. Fresh memory costs about what
// the kernel takes to populate it, and memory in use next to nothing. The bounds are wide: it is
// the quickest of several tries, and a page by page loop is ten times as slow.
TEST_F(MemoryCases, RegistrationCostsWhatPopulatingCosts) {
  constexpr size_t kBytes = 32 << 20;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, of Linux 5.14
  constexpr double kSlackSeconds = 0.1;
  double populating = 1e9;
  double fresh = 1e9;
  double in_use = 1e9;
  for (int i = 0; i < 5; ++i) {
    const Mapping by_kernel(kBytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS);
    const Mapping by_registration(kBytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS);
    int error = 0;
    Mr first;
    Mr second;
    populating = std::min(
        populating, SecondsOf([&] { error = madvise(by_kernel.data(), kBytes, kPopulateWrite); }));
    if (error != 0) GTEST_SKIP() << "this kernel has no MADV_POPULATE_WRITE";
    fresh = std::min(fresh, SecondsOf([&] {
                       first = Register(by_registration.data(), kBytes, Host::kAllAccess);
                     }));
    in_use = std::min(in_use, SecondsOf([&] {
                        second = Register(by_registration.data(), kBytes, Host::kAllAccess);
                      }));
    ASSERT_TRUE(first != nullptr && second != nullptr);
  }
  EXPECT_LT(fresh, 3 * populating + kSlackSeconds);
  EXPECT_LT(in_use, populating + kSlackSeconds);
}

}  // namespace
}  // namespace uroce::verbs::testing
