// The use of the device in a forked child.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

// Runs `f` in a child and returns its result, 0 .. 255.
template <class F>
int InChild(F f) {
  const pid_t child = fork();
  if (child == 0) _exit(f());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

class ForkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cq = host.CreateCq(16);
    const ibv_qp_init_attr basic = RcAttributes(cq.get(), cq.get());
    ibv_qp_init_attr_ex attr = ExtendedAttributes(host.pd.get(), basic, IBV_QP_EX_WITH_SEND);
    a.reset(ibv_create_qp_ex(host.context.get(), &attr));
    b.reset(ibv_create_qp_ex(host.context.get(), &attr));
    ConnectLoopback(a.get(), b.get());
  }

  Host host;
  Cq cq;
  Qp a, b;
};

TEST_F(ForkTest, ChildCannotUseInheritedObjects) {
  EXPECT_EQ(InChild([&] { return SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()); }), EIO);
  EXPECT_EQ(InChild([&] { return PostReceive(a.get(), host.Sge(0, 8), 1); }), EIO);
  EXPECT_EQ(InChild([&] {
              ibv_wc wc;
              return -ibv_poll_cq(cq.get(), 1, &wc);
            }),
            EIO);
  EXPECT_EQ(InChild([&] {
              ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.get());
              ibv_wr_start(qp);
              ibv_wr_send(qp);
              return ibv_wr_complete(qp);
            }),
            EIO);
  EXPECT_EQ(InChild([&] { return ToInit(a.get()); }), EIO);
  EXPECT_EQ(InChild([&] { return ibv_destroy_qp(a.get()); }), EIO);
  EXPECT_EQ(InChild([&] { return ibv_alloc_pd(host.context.get()) == nullptr ? errno : 0; }), EIO);
}

// A NIC's memory is mapped in the child, too, and the kernel gives out more of it.
TEST_F(ForkTest, ChildUsesDeviceMemory) {
  ibv_alloc_dm_attr attributes = {};
  attributes.length = 8;
  const Dm inherited(ibv_alloc_dm(host.context.get(), &attributes));
  ASSERT_NE(inherited, nullptr);
  const uint64_t number = 17;
  EXPECT_EQ(InChild([&] {
              if (const int error = ibv_memcpy_to_dm(inherited.get(), 0, &number, 8)) return error;
              const Dm own(ibv_alloc_dm(host.context.get(), &attributes));
              return own == nullptr ? errno : ibv_memcpy_to_dm(own.get(), 0, &number, 8);
            }),
            0);
  uint64_t seen = 0;
  ASSERT_EQ(ibv_memcpy_from_dm(&seen, inherited.get(), 0, 8), 0);
  EXPECT_EQ(seen, number);
}

TEST_F(ForkTest, ParentGoesOnWhileTheChildLives) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  ASSERT_EQ(PostReceive(b.get(), host.Sge(4096, 64), 1), 0);
  ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8), 1).Post(a.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(ForkTest, ChildCanOpenTheDeviceAnew) {
  EXPECT_EQ(InChild([] {
              Host own;
              const Cq own_cq = own.CreateCq(16);
              ibv_qp_init_attr attr = RcAttributes(own_cq.get(), own_cq.get());
              const Qp c(ibv_create_qp(own.pd.get(), &attr));
              const Qp d(ibv_create_qp(own.pd.get(), &attr));
              if (c == nullptr || d == nullptr) return 1;
              ConnectLoopback(c.get(), d.get());
              if (PostReceive(d.get(), own.Sge(4096, 64), 1) != 0) return 2;
              if (SendRequest(IBV_WR_SEND, own.Sge(0, 8), 1).Post(c.get()) != 0) return 3;
              return static_cast<int>(WaitForCompletion(own_cq.get()).status);
            }),
            0);
}

}  // namespace
}  // namespace uroce::verbs::testing
