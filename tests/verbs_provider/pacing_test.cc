// ibv_modify_qp_rate_limit and static_rate: data is sent no faster than they allow. How much slower
// it is depends on the load of the machine.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>

#include "tests/verbs_provider/reliable_pair_fixture.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint32_t kBytes = 32'768;
constexpr uint32_t kKbps = 8'000;  // a byte a microsecond
constexpr uint32_t kBurst = 4'096;

class PacingTest : public ReliablePairTest {
 protected:
  std::chrono::microseconds TimeOfWrite() {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(SendRequest(IBV_WR_RDMA_WRITE, host.Sge(0, kBytes))
                  .Remote(host.address(kUpper), host.mr->rkey)
                  .Post(a.get()),
              0);
    ExpectSuccess(IBV_WC_RDMA_WRITE);
    EXPECT_TRUE(Arrived(0, kUpper, kBytes));
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                 start);
  }
};

TEST_F(PacingTest, DeviceReportsItsPacingRates) {
  ibv_device_attr_ex attr = {};
  ASSERT_EQ(ibv_query_device_ex(host.context.get(), nullptr, &attr), 0);
  EXPECT_EQ(attr.packet_pacing_caps.qp_rate_limit_min, 1u);
  EXPECT_EQ(attr.packet_pacing_caps.qp_rate_limit_max, 100'000'000u);
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND}) {
    EXPECT_NE(attr.packet_pacing_caps.supported_qpts & 1u << type, 0u);
  }
}

TEST_F(PacingTest, WriteIsNotFasterThanItsRate) {
  ibv_qp_rate_limit_attr limit = {};
  limit.rate_limit = kKbps;
  limit.max_burst_sz = kBurst;
  ASSERT_EQ(ibv_modify_qp_rate_limit(a.get(), &limit), 0);
  EXPECT_EQ(Query(a.get()).rate_limit, kKbps);
  EXPECT_GE(TimeOfWrite().count(), kBytes - 2 * kBurst);
}

TEST_F(PacingTest, RateIsAnAttributeToo) {
  ibv_qp_attr attr = {};
  attr.rate_limit = kKbps;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_RATE_LIMIT), 0);
  EXPECT_EQ(Query(a.get()).rate_limit, kKbps);
  attr.rate_limit = 0;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_RATE_LIMIT), 0);
  EXPECT_EQ(Query(a.get()).rate_limit, 0u);
}

// In SQD the path may change, and with it the rate.
TEST_F(PacingTest, PathHasAStaticRate) {
  ASSERT_EQ(Modify(a.get(), IBV_QPS_SQD), 0);
  ibv_qp_attr attr = {};
  attr.ah_attr = AddressOf(OwnGid(), 1);
  attr.ah_attr.static_rate = IBV_RATE_2_5_GBPS;
  ASSERT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_AV), 0);
  ASSERT_EQ(Modify(a.get(), IBV_QPS_RTS), 0);
  EXPECT_EQ(Query(a.get()).ah_attr.static_rate, IBV_RATE_2_5_GBPS);
  std::chrono::microseconds time{0};
  constexpr int kWrites = 40;
  for (int i = 0; i < kWrites; ++i) time += TimeOfWrite();
  constexpr int64_t kBytesAMicrosecond = 313;
  EXPECT_GE(time.count(), (kWrites * kBytes - 65'536) / kBytesAMicrosecond);
}

TEST_F(PacingTest, RefusedRates) {
  ibv_qp_rate_limit_attr limit = {};
  limit.rate_limit = 100'000'001;
  EXPECT_EQ(ibv_modify_qp_rate_limit(a.get(), &limit), EINVAL);
  limit.rate_limit = kKbps;
  limit.comp_mask = 1;
  EXPECT_EQ(ibv_modify_qp_rate_limit(a.get(), &limit), EINVAL);
  const Qp fresh = Create();
  limit.comp_mask = 0;
  EXPECT_EQ(ibv_modify_qp_rate_limit(fresh.get(), &limit), EINVAL) << "it is in RESET";
}

}  // namespace
}  // namespace uroce::verbs::testing
