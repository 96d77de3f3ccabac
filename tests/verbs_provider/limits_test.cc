// Every limit that ibv_query_device reports can be reached, and one object more is refused with the
// errno of the manual page.
#include "transport/limits.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

class LimitsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
    ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 1, &gid), 0);
  }

  // `create` succeeds until there are `limit` objects, then fails with ENOMEM, and succeeds again
  // when there is one less.
  template <class Object, class Create>
  void ExpectLimit(int limit, Create create) {
    ASSERT_GT(limit, 0);
    std::vector<Object> objects;
    objects.reserve(static_cast<size_t>(limit));
    for (int i = 0; i < limit; ++i) {
      objects.push_back(Object(create()));
      ASSERT_NE(objects.back(), nullptr) << i << ": " << std::strerror(errno);
    }
    errno = 0;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    objects.pop_back();
    objects.push_back(Object(create()));
    EXPECT_NE(objects.back(), nullptr);
  }

  Host host{4096};
  ibv_device_attr device = {};
  ibv_gid gid = {};
};

TEST_F(LimitsTest, ProtectionDomains) {
  host.mr.reset();
  host.pd.reset();
  ExpectLimit<Pd>(device.max_pd, [&] { return ibv_alloc_pd(host.context.get()); });
}

TEST_F(LimitsTest, CompletionQueues) {
  ExpectLimit<Cq>(device.max_cq,
                  [&] { return ibv_create_cq(host.context.get(), 1, nullptr, nullptr, 0); });
}

TEST_F(LimitsTest, CompletionQueueEntries) {
  EXPECT_NE(host.CreateCq(device.max_cqe), nullptr);
  errno = 0;
  EXPECT_EQ(ibv_create_cq(host.context.get(), device.max_cqe + 1, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const Cq cq = host.CreateCq(1);
  EXPECT_EQ(ibv_resize_cq(cq.get(), device.max_cqe + 1), EINVAL);
}

TEST_F(LimitsTest, AddressHandles) {
  ibv_ah_attr attr = AddressOf(gid, 1);
  ExpectLimit<Ah>(device.max_ah, [&] { return ibv_create_ah(host.pd.get(), &attr); });
}

TEST_F(LimitsTest, SharedReceiveQueues) {
  ExpectLimit<Srq>(device.max_srq, [&] {
    ibv_srq_init_attr attr = {.srq_context = nullptr,
                              .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
    return ibv_create_srq(host.pd.get(), &attr);
  });
}

// The device of a fabric is that of many processes.
TEST_F(LimitsTest, QueuePairsOfAProcess) {
  EXPECT_GE(device.max_qp, 1 << 20);
  const Cq cq = host.CreateCq(1);
  ExpectLimit<Qp>(transport::kMaxQps, [&] {
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    return ibv_create_qp(host.pd.get(), &attr);
  });
}

// Regions and windows share one table of keys.
TEST_F(LimitsTest, MemoryRegions) {
  host.mr.reset();
  ExpectLimit<Mr>(device.max_mr, [&] {
    return ibv_reg_mr(host.pd.get(), host.data(), 8, IBV_ACCESS_LOCAL_WRITE);
  });
}

TEST_F(LimitsTest, MemoryWindows) {
  host.mr.reset();
  ExpectLimit<Mw>(device.max_mw, [&] { return ibv_alloc_mw(host.pd.get(), IBV_MW_TYPE_2); });
}

TEST_F(LimitsTest, SizesOfQueuePairs) {
  const Cq cq = host.CreateCq(1);
  const auto refusal = [&](auto ibv_qp_cap::*member, int value) {
    ibv_qp_init_attr attr = RcAttributes(cq.get(), cq.get());
    attr.cap.*member = static_cast<uint32_t>(value);
    errno = 0;
    const Qp qp(ibv_create_qp(host.pd.get(), &attr));
    return qp == nullptr ? errno : 0;
  };
  for (const auto member : {&ibv_qp_cap::max_send_wr, &ibv_qp_cap::max_recv_wr}) {
    EXPECT_EQ(refusal(member, device.max_qp_wr), 0);
    EXPECT_EQ(refusal(member, device.max_qp_wr + 1), EINVAL);
  }
  for (const auto member : {&ibv_qp_cap::max_send_sge, &ibv_qp_cap::max_recv_sge}) {
    EXPECT_EQ(refusal(member, device.max_sge), 0);
    EXPECT_EQ(refusal(member, device.max_sge + 1), EINVAL);
  }
}

TEST_F(LimitsTest, SizesOfSharedReceiveQueues) {
  const auto refusal = [&](int work_requests, int sges) {
    ibv_srq_init_attr attr = {.srq_context = nullptr,
                              .attr = {.max_wr = static_cast<uint32_t>(work_requests),
                                       .max_sge = static_cast<uint32_t>(sges),
                                       .srq_limit = 0}};
    errno = 0;
    const Srq srq(ibv_create_srq(host.pd.get(), &attr));
    return srq == nullptr ? errno : 0;
  };
  EXPECT_EQ(refusal(device.max_srq_wr, device.max_srq_sge), 0);
  EXPECT_EQ(refusal(device.max_srq_wr + 1, 1), EINVAL);
  EXPECT_EQ(refusal(1, device.max_srq_sge + 1), EINVAL);
}

// A READ gathers into as many pieces as any other request.
TEST_F(LimitsTest, PiecesOfARead) { EXPECT_EQ(device.max_sge_rd, device.max_sge); }

TEST_F(LimitsTest, OutstandingReadsAndAtomics) {
  EXPECT_EQ(device.max_res_rd_atom, device.max_qp_rd_atom * device.max_qp);
  const Cq cq = host.CreateCq(1);
  ibv_qp_init_attr init = RcAttributes(cq.get(), cq.get());
  const Qp qp(ibv_create_qp(host.pd.get(), &init));
  ASSERT_EQ(ToInit(qp.get()), 0);
  ibv_qp_attr attr = {};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.ah_attr = AddressOf(gid, 1);
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  attr.max_dest_rd_atomic = static_cast<uint8_t>(device.max_qp_rd_atom + 1);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), EINVAL);
  attr.max_dest_rd_atomic = static_cast<uint8_t>(device.max_qp_rd_atom);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRtr), 0);

  attr.qp_state = IBV_QPS_RTS;
  constexpr int kToRts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                         IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  attr.max_rd_atomic = static_cast<uint8_t>(device.max_qp_init_rd_atom + 1);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRts), EINVAL);
  attr.max_rd_atomic = static_cast<uint8_t>(device.max_qp_init_rd_atom);
  EXPECT_EQ(ibv_modify_qp(qp.get(), &attr, kToRts), 0);
}

TEST_F(LimitsTest, MulticastGroupsAndMembers) {
  EXPECT_EQ(device.max_total_mcast_qp_attach, device.max_mcast_grp * device.max_mcast_qp_attach);
  const auto group_of = [](int number) {
    ibv_gid group = {};
    group.raw[0] = 0xff;
    group.raw[1] = 0x0e;
    std::memcpy(group.raw + 12, &number, sizeof number);
    return group;
  };
  const Cq cq = host.CreateCq(1);
  ibv_qp_init_attr init = Attributes(IBV_QPT_UD, cq.get(), cq.get());
  std::vector<Qp> qps;
  for (int i = 0; i <= device.max_mcast_qp_attach; ++i) {
    qps.push_back(Qp(ibv_create_qp(host.pd.get(), &init)));
    ASSERT_NE(qps.back(), nullptr);
  }
  ibv_gid group = group_of(0);
  for (int i = 0; i < device.max_mcast_qp_attach; ++i) {
    ASSERT_EQ(ibv_attach_mcast(qps[static_cast<size_t>(i)].get(), &group, 0), 0) << i;
  }
  EXPECT_EQ(ibv_attach_mcast(qps.back().get(), &group, 0), ENOMEM);
  for (int i = 1; i < device.max_mcast_grp; ++i) {
    group = group_of(i);
    ASSERT_EQ(ibv_attach_mcast(qps[0].get(), &group, 0), 0) << i;
  }
  group = group_of(device.max_mcast_grp);
  EXPECT_EQ(ibv_attach_mcast(qps[0].get(), &group, 0), ENOMEM);

  for (int i = 1; i < device.max_mcast_grp; ++i) {
    group = group_of(i);
    ASSERT_EQ(ibv_detach_mcast(qps[0].get(), &group, 0), 0);
  }
  group = group_of(0);
  for (int i = 0; i < device.max_mcast_qp_attach; ++i) {
    ASSERT_EQ(ibv_detach_mcast(qps[static_cast<size_t>(i)].get(), &group, 0), 0);
  }
}

TEST_F(LimitsTest, TablesOfThePort) {
  ibv_port_attr port;
  ASSERT_EQ(ibv_query_port(host.context.get(), 1, &port), 0);
  EXPECT_EQ(port.pkey_tbl_len, device.max_pkeys);
  EXPECT_EQ(device.phys_port_cnt, 1);
  EXPECT_EQ(ibv_query_port(host.context.get(), 2, &port), EINVAL);
}

// Limits of features that the device does not have are 0.
TEST_F(LimitsTest, FeaturesThatAreNotThere) {
  EXPECT_EQ(device.max_ee, 0);
  EXPECT_EQ(device.max_rdd, 0);
  EXPECT_EQ(device.max_ee_rd_atom, 0);
  EXPECT_EQ(device.max_ee_init_rd_atom, 0);
  EXPECT_EQ(device.max_raw_ipv6_qp, 0);
  EXPECT_EQ(device.max_raw_ethy_qp, 0);
  EXPECT_EQ(device.max_fmr, 0);
  EXPECT_EQ(device.max_map_per_fmr, 0);
}

}  // namespace
}  // namespace uroce::verbs::testing
