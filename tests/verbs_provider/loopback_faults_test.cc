// A scenario of `uroce run --scenario` means what a process sends to itself, too. The BUILD file
// sets the variable.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

// As ibv_rc_pingpong with both ends in one process. The third SEND is lost whenever it is sent, so
// that it fails, and those before it do not.
TEST(LoopbackFaultsTest, PacketThatTheScenarioNamesIsLost) {
  Host host;
  const Cq cq = host.CreateCq(64);
  ibv_qp_init_attr attributes = RcAttributes(cq.get(), cq.get());
  const Qp ping(ibv_create_qp(host.pd.get(), &attributes));
  const Qp pong(ibv_create_qp(host.pd.get(), &attributes));
  ConnectLoopback(ping.get(), pong.get(), {.timeout = 8, .retry_count = 7});
  for (uint64_t round = 0; round < 3; ++round) {
    ASSERT_EQ(PostReceive(pong.get(), host.Sge(100, 100), round), 0);
  }
  for (int round = 0; round < 2; ++round) {
    SendRequest send(IBV_WR_SEND, host.Sge(0, 100));
    ASSERT_EQ(send.Post(ping.get()), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
  }
  SendRequest send(IBV_WR_SEND, host.Sge(0, 100));
  ASSERT_EQ(send.Post(ping.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_RETRY_EXC_ERR);
}

}  // namespace
}  // namespace uroce::verbs::testing
