// A scenario of `uroce run --scenario` also applies to frames that a process sends to itself. The
// BUILD file sets the variable.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

// As ibv_rc_pingpong with both ends in one process. The scenario drops the third SEND at every
// attempt, so only that one fails.
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

// A scenario also drops the copy of a multicast datagram for the sender's own process.
TEST(LoopbackFaultsTest, DatagramToTheSendersOwnGroupIsLost) {
  constexpr uint32_t kMulticastQpn = 0xff'ffff;
  constexpr uint32_t kBytes = 100;
  constexpr uint32_t kGrhBytes = 40;
  const ibv_gid group = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3}};
  Host host;
  const Cq send_cq = host.CreateCq(64);
  const Cq receive_cq = host.CreateCq(64);
  ibv_qp_init_attr attributes = Attributes(IBV_QPT_UD, send_cq.get(), receive_cq.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &attributes));
  const ConnectOptions options;
  BringUp(qp.get(), options);
  ASSERT_EQ(ibv_attach_mcast(qp.get(), &group, 0), 0);
  ibv_ah_attr address = AddressOf(group, options.gid_index);
  const Ah ah(ibv_create_ah(host.pd.get(), &address));
  ASSERT_NE(ah, nullptr);
  for (uint64_t number = 0; number < 3; ++number) {
    ASSERT_EQ(PostReceive(qp.get(), host.Sge(1'000 * (number + 1), kGrhBytes + kBytes), number), 0);
  }
  for (uint8_t number = 0; number < 4; ++number) {
    host.data()[0] = number;
    SendRequest send(IBV_WR_SEND, host.Sge(0, kBytes));
    ASSERT_EQ(send.To(ah.get(), kMulticastQpn, options.qkey).Post(qp.get()), 0);
    EXPECT_EQ(WaitForCompletion(send_cq.get()).status, IBV_WC_SUCCESS);
  }
  for (const int number : {0, 1, 3}) {
    const ibv_wc wc = WaitForCompletion(receive_cq.get());
    ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(host.data()[1'000 * (wc.wr_id + 1) + kGrhBytes], number);
  }
  ASSERT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
