// A P_Key table of three entries, as verbs show it: 0xffff, 0x8012, 0x0034.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>

#include "tests/verbs_provider/loopback.h"

namespace uroce::verbs::testing {
namespace {

constexpr std::array<uint16_t, 3> kTable = {0xffff, 0x8012, 0x0034};
constexpr uint16_t kFull = 1;
constexpr uint16_t kLimited = 2;

class PartitionTest : public LoopbackTest {
 protected:
  // RESET -> RTS, in the partition of this index.
  Qp Create() {
    ibv_qp_init_attr attr = RcAttributes(cq.get(), receive_cq.get());
    return Qp(ibv_create_qp(host.pd.get(), &attr));
  }
  static int ToInitIn(ibv_qp* qp, uint16_t pkey_index) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.pkey_index = pkey_index;
    attr.qp_access_flags = Host::kAllAccess;
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  }
  void Connect(ibv_qp* a, uint16_t pkey_of_a, ibv_qp* b, uint16_t pkey_of_b) {
    const ConnectOptions options = {.timeout = 8, .retry_count = 1};
    ASSERT_EQ(ToInitIn(a, pkey_of_a), 0);
    ASSERT_EQ(ToInitIn(b, pkey_of_b), 0);
    ASSERT_EQ(ToRtr(a, b->qp_num, OwnGid(), options), 0);
    ASSERT_EQ(ToRtr(b, a->qp_num, OwnGid(), options), 0);
    ASSERT_EQ(ToRts(a, options), 0);
    ASSERT_EQ(ToRts(b, options), 0);
  }
  ibv_wc_status StatusOfSend(uint16_t pkey_of_sender, uint16_t pkey_of_receiver) {
    const Qp a = Create();
    const Qp b = Create();
    Connect(a.get(), pkey_of_sender, b.get(), pkey_of_receiver);
    EXPECT_EQ(PostReceive(b.get(), host.Sge(kUpper, 8), 2), 0);
    EXPECT_EQ(SendRequest(IBV_WR_SEND, host.Sge(0, 8)).Post(a.get()), 0);
    return WaitForCompletion(cq.get()).status;
  }
  uint32_t Violations() {
    ibv_port_attr port = {};
    EXPECT_EQ(ibv_query_port(host.context.get(), 1, &port), 0);
    return port.bad_pkey_cntr;
  }
};

TEST_F(PartitionTest, TableIsShown) {
  ibv_device_attr device;
  ASSERT_EQ(ibv_query_device(host.context.get(), &device), 0);
  EXPECT_EQ(device.max_pkeys, kTable.size());
  ibv_port_attr port = {};
  ASSERT_EQ(ibv_query_port(host.context.get(), 1, &port), 0);
  EXPECT_EQ(port.pkey_tbl_len, kTable.size());
  for (int index = 0; index < static_cast<int>(kTable.size()); ++index) {
    __be16 pkey = 0;
    ASSERT_EQ(ibv_query_pkey(host.context.get(), 1, index, &pkey), 0);
    EXPECT_EQ(be16toh(pkey), kTable[index]);
    EXPECT_EQ(ibv_get_pkey_index(host.context.get(), 1, pkey), index);
  }
  __be16 none = 0;
  EXPECT_NE(ibv_query_pkey(host.context.get(), 1, kTable.size(), &none), 0);
  EXPECT_EQ(ibv_get_pkey_index(host.context.get(), 1, htobe16(0x8056)), -1);
}

TEST_F(PartitionTest, IndexIsOneOfTheTable) {
  const Qp qp = Create();
  EXPECT_EQ(ToInitIn(qp.get(), kTable.size()), EINVAL);
  EXPECT_EQ(ToInitIn(qp.get(), kFull), 0);
  EXPECT_EQ(Query(qp.get()).pkey_index, kFull);
}

TEST_F(PartitionTest, OnePartitionIsNeededAndOneFullMember) {
  EXPECT_EQ(StatusOfSend(kFull, kFull), IBV_WC_SUCCESS);
  const uint32_t before = Violations();
  EXPECT_EQ(StatusOfSend(kFull, 0), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(StatusOfSend(0, kFull), IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(StatusOfSend(kLimited, kLimited), IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(Violations(), before + 3);
}

}  // namespace
}  // namespace uroce::verbs::testing
