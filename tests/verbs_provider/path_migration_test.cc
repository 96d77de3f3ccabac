// Automatic path migration by ibv_modify_qp, between queue pairs of one device that has two
// addresses: the first two entries of its GID table.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr uint8_t kPrimary = 1;
constexpr uint8_t kAlternate = 0;
constexpr uint8_t kAlternateTimeout = 15;

class PathMigrationTest : public LoopbackTest, public ::testing::WithParamInterface<ibv_qp_type> {
 protected:
  void SetUp() override {
    for (Qp* qp : {&a, &b}) {
      ibv_qp_init_attr attr = Attributes(GetParam(), cq.get(), receive_cq.get());
      qp->reset(ibv_create_qp(host.pd.get(), &attr));
      ASSERT_NE(*qp, nullptr);
    }
    ConnectLoopback(a.get(), b.get());
  }
  int LoadAndRearm(ibv_qp* qp) {
    ibv_qp_attr attr = {};
    attr.alt_ah_attr = AddressOf(OwnGid(kAlternate), kAlternate);
    attr.alt_port_num = 1;
    attr.alt_timeout = kAlternateTimeout;
    attr.path_mig_state = IBV_MIG_REARM;
    return ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
  }
  static int SetState(ibv_qp* qp, ibv_mig_state state) {
    ibv_qp_attr attr = {};
    attr.path_mig_state = state;
    return ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE);
  }
  void Send(ibv_qp* from, ibv_qp* to) {
    ASSERT_EQ(PostReceive(to, host.Sge(kUpper, 8), 2), 0);
    ASSERT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(from), 0);
    EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_SUCCESS);
    EXPECT_EQ(WaitForCompletion(receive_cq.get()).status, IBV_WC_SUCCESS);
  }
  void Arm() {
    for (ibv_qp* const qp : {a.get(), b.get()}) {
      ASSERT_EQ(LoadAndRearm(qp), 0);
      EXPECT_EQ(Query(qp).path_mig_state, IBV_MIG_REARM);
    }
    Send(a.get(), b.get());
    Send(b.get(), a.get());
    ExpectState(IBV_MIG_ARMED);
  }
  void ExpectState(ibv_mig_state state) {
    for (ibv_qp* const qp : {a.get(), b.get()}) EXPECT_EQ(Query(qp).path_mig_state, state);
  }
  static bool IsTo(const ibv_ah_attr& path, const ibv_gid& gid, uint8_t index) {
    return std::memcmp(path.grh.dgid.raw, gid.raw, sizeof gid.raw) == 0 &&
           path.grh.sgid_index == index;
  }

  Qp a, b;
};

TEST_P(PathMigrationTest, DeviceReportsPathMigration) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG, 0u);
}

TEST_P(PathMigrationTest, AlternatePathIsLoadedAndQueried) {
  ASSERT_EQ(LoadAndRearm(a.get()), 0);
  const ibv_qp_attr attr = Query(a.get());
  EXPECT_TRUE(IsTo(attr.ah_attr, OwnGid(kPrimary), kPrimary));
  EXPECT_TRUE(IsTo(attr.alt_ah_attr, OwnGid(kAlternate), kAlternate));
  EXPECT_EQ(attr.alt_port_num, 1);
  EXPECT_EQ(attr.alt_timeout, kAlternateTimeout);
  EXPECT_EQ(attr.alt_pkey_index, 0);
}

TEST_P(PathMigrationTest, BothEndsMigrateAndRaiseEvents) {
  Arm();
  ExpectNoAsyncEvent(host.context.get());
  ASSERT_EQ(SetState(a.get(), IBV_MIG_MIGRATED), 0);
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_PATH_MIG, a.get());
  EXPECT_EQ(Query(b.get()).path_mig_state, IBV_MIG_ARMED);
  Send(a.get(), b.get());
  ExpectAsyncEvent(host.context.get(), IBV_EVENT_PATH_MIG, b.get());
  ExpectState(IBV_MIG_MIGRATED);
  for (ibv_qp* const qp : {a.get(), b.get()}) {
    EXPECT_TRUE(IsTo(Query(qp).ah_attr, OwnGid(kAlternate), kAlternate));
    EXPECT_EQ(Query(qp).timeout, kAlternateTimeout);
  }
  Send(b.get(), a.get());
  ExpectNoAsyncEvent(host.context.get());
}

TEST_P(PathMigrationTest, StatesThatAreNotToBeSet) {
  EXPECT_EQ(SetState(a.get(), IBV_MIG_REARM), EINVAL) << "no alternate path";
  for (const int state : {int{IBV_MIG_ARMED}, 3, -1}) {
    EXPECT_EQ(SetState(a.get(), static_cast<ibv_mig_state>(state)), EINVAL);
  }
  EXPECT_EQ(SetState(a.get(), IBV_MIG_MIGRATED), 0);
  ASSERT_EQ(LoadAndRearm(a.get()), 0);
  EXPECT_EQ(SetState(a.get(), IBV_MIG_MIGRATED), EINVAL);
}

TEST_P(PathMigrationTest, InvalidAlternatePathsAreRefused) {
  const auto expect_refused = [this](auto spoil) {
    ibv_qp_attr attr = {};
    attr.alt_ah_attr = AddressOf(OwnGid(kAlternate), kAlternate);
    attr.alt_port_num = 1;
    spoil(attr);
    EXPECT_EQ(ibv_modify_qp(a.get(), &attr, IBV_QP_ALT_PATH), EINVAL);
    EXPECT_EQ(Query(a.get()).alt_port_num, 0);
  };
  expect_refused([](ibv_qp_attr& attr) { attr.alt_port_num = 2; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_ah_attr.port_num = 2; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_ah_attr.port_num = attr.alt_port_num = 2; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_ah_attr.is_global = 0; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_ah_attr.grh.sgid_index = 255; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_pkey_index = 1; });
  expect_refused([](ibv_qp_attr& attr) { attr.alt_timeout = 32; });
}

INSTANTIATE_TEST_SUITE_P(Services, PathMigrationTest, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& service) {
                           return service.param == IBV_QPT_RC ? "RC" : "UC";
                         });

}  // namespace
}  // namespace uroce::verbs::testing
