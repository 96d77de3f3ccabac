// A verb that runs out of memory changes nothing.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "tests/transport/connected_pair.h"

namespace {

// Allocations that may still succeed; negative: all of them.
int allocations_left = -1;
size_t bytes_allocated = 0;

}  // namespace

[[gnu::noinline]] void* operator new(size_t bytes) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  bytes_allocated += bytes;
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace uroce::transport {
namespace {

class OutOfMemoryTest : public testing::Test {
 protected:
  // Runs `f` with one more allocation each time, until it has enough; `check` examines the state
  // after each failure.
  template <class F, class Check>
  static int FailUntilItWorks(F f, Check check) {
    for (int allocations = 0;; ++allocations) {
      allocations_left = allocations;
      bool failed = false;
      try {
        f();
      } catch (const std::bad_alloc&) {
        failed = true;
      }
      allocations_left = -1;
      if (!failed) return allocations;
      check();
    }
  }
};

TEST_F(OutOfMemoryTest, ModifyLeavesTheQueuePairAsItWas) {
  using M = QpAttributeMask;
  TestHost host(1);
  QpAttributes to_init;
  to_init.state = QpState::kInit;
  to_init.port_num = 1;
  ASSERT_EQ(host.qp->Modify(to_init, M::kState | M::kPkeyIndex | M::kPort | M::kAccessFlags),
            Status::kOk);
  QpAttributes a;
  a.state = QpState::kReadyToReceive;
  a.path_mtu = Mtu::k1024;
  a.destination_qpn = Qpn{5};
  a.rq_psn = Psn(7);
  a.max_dest_read_atomic = 4;
  a.address.destination_gid = Gid::FromIpv4({10, 0, 0, 9});
  a.address.source_gid_index = 1;
  constexpr uint32_t kMask = M::kState | M::kAddressVector | M::kPathMtu | M::kDestinationQpn |
                             M::kRqPsn | M::kMaxDestReadAtomic | M::kMinRnrTimer;
  const int needed = FailUntilItWorks([&] { EXPECT_EQ(host.qp->Modify(a, kMask), Status::kOk); },
                                      [&] {
                                        const QpAttributes now = host.qp->Query();
                                        EXPECT_EQ(now.state, QpState::kInit);
                                        EXPECT_EQ(now.destination_qpn, Qpn{});
                                        EXPECT_EQ(now.max_dest_read_atomic, 0);
                                        EXPECT_EQ(now.rq_psn, Psn());
                                      });
  EXPECT_GT(needed, 0) << "nothing was allocated: the test tests nothing";
  EXPECT_EQ(host.qp->state(), QpState::kReadyToReceive);
  EXPECT_EQ(host.qp->Query().rq_psn, Psn(7));
}

TEST_F(OutOfMemoryTest, CreationLosesNoNumber) {
  EndpointConfig config;
  config.gids = {Gid::LinkLocal({})};
  config.qpn_count = 3;
  TestHost host(config);  // has one
  for (int i = 0; i < 2; ++i) {
    QueuePair* qp = nullptr;
    FailUntilItWorks(
        [&] {
          EXPECT_EQ(host.endpoint.CreateQueuePair(host.qp->init_attributes(), &qp), Status::kOk);
        },
        [&] { EXPECT_EQ(qp, nullptr); });
    EXPECT_NE(qp, nullptr);
  }
}

TEST_F(OutOfMemoryTest, QueuePairTakesAsMuchMemoryHoweverManyThereAre) {
  TestHost host(1);
  const auto bytes_of_one_more = [&host] {
    const size_t before = bytes_allocated;
    QueuePair* qp = nullptr;
    EXPECT_EQ(host.endpoint.CreateQueuePair(host.qp->init_attributes(), &qp), Status::kOk);
    return bytes_allocated - before;
  };
  const size_t bytes_of_the_second = bytes_of_one_more();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(bytes_of_one_more(), bytes_of_the_second) << i;
}

TEST_F(OutOfMemoryTest, TimersNeedNoneOnceTheQueuePairsAreThere) {
  TestHost host(1);
  std::vector<QueuePair*> qps = {host.qp};
  for (int i = 0; i < 100; ++i) {
    QueuePair* qp = nullptr;
    ASSERT_EQ(host.endpoint.CreateQueuePair(host.qp->init_attributes(), &qp), Status::kOk);
    qps.push_back(qp);
  }
  for (QueuePair* qp : qps) {
    host.qp = qp;
    host.Connect(Gid::FromIpv4({10, 0, 0, 9}), {2, 0, 0, 0, 0, 9}, Qpn{5}, 1, Mtu::k1024);
  }
  SendWorkRequest write;
  write.opcode = SendOpcode::kRdmaWrite;
  std::vector<uint8_t> frame(kMaxFrameBytes);
  size_t frames = 0;
  allocations_left = 0;
  for (QueuePair* qp : qps) {
    if (qp->PostSend(write) != Status::kOk) break;
    frames += host.endpoint.PollTransmit(Time{1'000}, Route::kWire, frame) != 0 ? 1 : 0;
  }
  allocations_left = -1;
  EXPECT_EQ(frames, qps.size());
  EXPECT_LT(host.endpoint.NextDeadline(), kNever) << "no timer runs: the test tests nothing";
}

}  // namespace
}  // namespace uroce::transport
