// Large memory is allocated and freed without the engine's lock, so that verbs of other threads get
// through meanwhile.

#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

// glibc's own functions, which the ones that this program interposes call.
extern "C" void* __libc_malloc(size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void* __libc_memalign(size_t alignment, size_t bytes);
extern "C" void* __libc_calloc(size_t count, size_t bytes);
extern "C" void __libc_free(void* memory);

namespace uroce::verbs::testing {
namespace {

constexpr size_t kLargeBytes = 128 << 10;
constexpr auto kMuchTooLong = std::chrono::seconds(60);

thread_local bool is_watched = false;
std::atomic<uint64_t> verbs_done{0};
std::atomic<int> large_calls{0};
std::atomic<int> calls_that_stopped_verbs{0};

// The first verb that ends may already have passed the lock, so two must end.
void ExpectThatVerbsGetThrough() {
  ++large_calls;
  const auto give_up = std::chrono::steady_clock::now() + kMuchTooLong;
  for (const uint64_t before = verbs_done; verbs_done < before + 2; std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() < give_up) continue;
    ++calls_that_stopped_verbs;
    return;
  }
}

void Watch(size_t bytes) {
  if (!is_watched || bytes < kLargeBytes) return;
  is_watched = false;
  ExpectThatVerbsGetThrough();
  is_watched = calls_that_stopped_verbs == 0;
}

}  // namespace
}  // namespace uroce::verbs::testing

extern "C" void* malloc(size_t bytes) {
  uroce::verbs::testing::Watch(bytes);
  return __libc_malloc(bytes);
}

extern "C" void* calloc(size_t count, size_t bytes) {
  uroce::verbs::testing::Watch(count * bytes);
  return __libc_calloc(count, bytes);
}

extern "C" void* aligned_alloc(size_t alignment, size_t bytes) {
  uroce::verbs::testing::Watch(bytes);
  return __libc_memalign(alignment, bytes);
}

extern "C" void free(void* memory) {
  if (memory != nullptr) uroce::verbs::testing::Watch(malloc_usable_size(memory));
  __libc_free(memory);
}

namespace uroce::verbs::testing {
namespace {

// While the fixture lives, another thread queries a queue pair without end. A large call of this
// thread to the allocator waits until the other thread has made progress.
class AllocationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cq_ = host_.CreateCq(16);
    ibv_qp_init_attr attr = RcAttributes(cq_.get(), cq_.get());
    qp_.reset(ibv_create_qp(host_.pd.get(), &attr));
    ASSERT_NE(qp_, nullptr);
    other_ = std::thread([this] {
      while (!done_) {
        Query(qp_.get());
        ++verbs_done;
      }
    });
    large_calls = 0;
    is_watched = true;
  }
  void TearDown() override {
    is_watched = false;
    done_ = true;
    other_.join();
    EXPECT_EQ(calls_that_stopped_verbs, 0);
  }

  Host host_;
  Cq cq_;
  Qp qp_;
  std::atomic<bool> done_{false};
  std::thread other_;
};

TEST_F(AllocationTest, CompletionQueueOfFourMillionEntries) {
  Cq cq = host_.CreateCq(4'000'000);
  EXPECT_EQ(large_calls, 1);
  EXPECT_EQ(ibv_resize_cq(cq.get(), 1'000'000), 0);
  EXPECT_EQ(large_calls, 3);
  cq.reset();
  EXPECT_EQ(large_calls, 4);
}

TEST_F(AllocationTest, QueuePairOfFullDepth) {
  ibv_qp_init_attr attr = RcAttributes(cq_.get(), cq_.get());
  attr.cap.max_send_wr = attr.cap.max_recv_wr = 16'384;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = 32;
  Qp qp(ibv_create_qp(host_.pd.get(), &attr));
  ASSERT_NE(qp, nullptr);
  const int taken = large_calls;
  EXPECT_GE(taken, 5);
  qp.reset();
  EXPECT_EQ(large_calls, 2 * taken);
}

TEST_F(AllocationTest, SharedReceiveQueueOfFullDepth) {
  ibv_srq_init_attr init = {};
  init.attr = {.max_wr = 16'384, .max_sge = 32, .srq_limit = 0};
  Srq srq(ibv_create_srq(host_.pd.get(), &init));
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(large_calls, 2);
  ibv_srq_attr larger = {.max_wr = 32'768, .max_sge = 0, .srq_limit = 0};
  EXPECT_EQ(ibv_modify_srq(srq.get(), &larger, IBV_SRQ_MAX_WR), 0);
  EXPECT_EQ(large_calls, 6);
  srq.reset();
  EXPECT_EQ(large_calls, 8);
}

TEST_F(AllocationTest, ThousandsOfMemoryRegions) {
  constexpr size_t kRegions = 5'000;
  std::vector<Mr> regions;
  regions.reserve(kRegions);
  for (size_t i = 0; i < kRegions; ++i) {
    regions.emplace_back(ibv_reg_mr(host_.pd.get(), host_.data(), 64, 0));
    ASSERT_NE(regions.back(), nullptr);
  }
}

}  // namespace
}  // namespace uroce::verbs::testing
