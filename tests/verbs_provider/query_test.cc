// ibv_query_qp in every state of every service, and the attributes that ibv_modify_qp refuses.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/verbs_provider/verbs_objects.h"

namespace uroce::verbs::testing {
namespace {

const char* Name(ibv_qp_type type) {
  return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD";
}

// The attributes that are valid in a state (ibv_query_qp(3), IBA 11.2.5.3); alternate paths
// are not set here.
int ValidAttributes(ibv_qp_type type, ibv_qp_state state) {
  if (state == IBV_QPS_RESET || state == IBV_QPS_ERR) return IBV_QP_STATE;
  const bool sends = state != IBV_QPS_INIT && state != IBV_QPS_RTR;
  int valid = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  valid |= type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
  if (sends) valid |= IBV_QP_SQ_PSN;
  if (type == IBV_QPT_UD || state == IBV_QPS_INIT) return valid;
  valid |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (sends) valid |= IBV_QP_PATH_MIG_STATE;
  if (type == IBV_QPT_UC) return valid;
  valid |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (sends)
    valid |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return valid;
}

bool SamePath(const ibv_ah_attr& a, const ibv_ah_attr& b) {
  return std::memcmp(a.grh.dgid.raw, b.grh.dgid.raw, 16) == 0 &&
         a.grh.flow_label == b.grh.flow_label && a.grh.sgid_index == b.grh.sgid_index &&
         a.grh.hop_limit == b.grh.hop_limit && a.grh.traffic_class == b.grh.traffic_class &&
         a.dlid == b.dlid && a.sl == b.sl && a.src_path_bits == b.src_path_bits &&
         a.static_rate == b.static_rate && a.is_global == b.is_global && a.port_num == b.port_num;
}

// The names of the attributes in `mask` that differ.
std::string Differences(const ibv_qp_attr& a, const ibv_qp_attr& b, int mask) {
  std::string names;
  const auto compare = [&](int bit, const char* name, bool same) {
    if ((mask & bit) != 0 && !same) names += std::string(name) + " ";
  };
  compare(IBV_QP_STATE, "qp_state", a.qp_state == b.qp_state);
  compare(IBV_QP_ACCESS_FLAGS, "qp_access_flags", a.qp_access_flags == b.qp_access_flags);
  compare(IBV_QP_PKEY_INDEX, "pkey_index", a.pkey_index == b.pkey_index);
  compare(IBV_QP_PORT, "port_num", a.port_num == b.port_num);
  compare(IBV_QP_QKEY, "qkey", a.qkey == b.qkey);
  compare(IBV_QP_AV, "ah_attr", SamePath(a.ah_attr, b.ah_attr));
  compare(IBV_QP_PATH_MTU, "path_mtu", a.path_mtu == b.path_mtu);
  compare(IBV_QP_TIMEOUT, "timeout", a.timeout == b.timeout);
  compare(IBV_QP_RETRY_CNT, "retry_cnt", a.retry_cnt == b.retry_cnt);
  compare(IBV_QP_RNR_RETRY, "rnr_retry", a.rnr_retry == b.rnr_retry);
  compare(IBV_QP_RQ_PSN, "rq_psn", a.rq_psn == b.rq_psn);
  compare(IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a.max_rd_atomic == b.max_rd_atomic);
  compare(IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a.min_rnr_timer == b.min_rnr_timer);
  compare(IBV_QP_SQ_PSN, "sq_psn", a.sq_psn == b.sq_psn);
  compare(IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic",
          a.max_dest_rd_atomic == b.max_dest_rd_atomic);
  compare(IBV_QP_PATH_MIG_STATE, "path_mig_state", a.path_mig_state == b.path_mig_state);
  compare(IBV_QP_DEST_QPN, "dest_qp_num", a.dest_qp_num == b.dest_qp_num);
  return names;
}

class QueryTest : public ::testing::TestWithParam<ibv_qp_type> {
 protected:
  void SetUp() override {
    cq = host.CreateCq(64);
    receive_cq = host.CreateCq(64);
    ibv_qp_init_attr init = Attributes(GetParam(), cq.get(), receive_cq.get());
    init.sq_sig_all = 1;
    init.qp_context = this;
    qp.reset(ibv_create_qp(host.pd.get(), &init));
    ASSERT_NE(qp, nullptr);
    granted = init;

    set.port_num = 1;
    set.qkey = 0x8765'4321;
    set.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    set.path_mtu = IBV_MTU_512;
    set.dest_qp_num = 0xab'cdef;
    set.rq_psn = 0xff'ffff;
    set.sq_psn = 0x12'3456;
    set.max_dest_rd_atomic = 7;
    set.max_rd_atomic = 9;
    set.min_rnr_timer = 31;
    set.timeout = 31;
    set.retry_cnt = 6;
    set.rnr_retry = 5;
    set.path_mig_state = IBV_MIG_MIGRATED;
    ibv_gid gid = {};
    ASSERT_EQ(ibv_query_gid(host.context.get(), 1, 1, &gid), 0);
    set.ah_attr = AddressOf(gid, 1);
    set.ah_attr.grh.flow_label = 0xa'bcde;
    set.ah_attr.grh.traffic_class = 0x60;
    set.ah_attr.grh.hop_limit = 64;  // the route's: any other is replaced
    set.ah_attr.sl = 5;
  }

  // Moves to `state`, with the required attributes from `set`.
  int Step(ibv_qp_state state, int mask = 0) {
    set.qp_state = state;
    return ibv_modify_qp(qp.get(), &set, IBV_QP_STATE | mask);
  }
  int InitMask() const {
    return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
           (GetParam() == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  }
  int RtrMask() const {
    if (GetParam() == IBV_QPT_UD) return 0;
    const int reliable = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           (GetParam() == IBV_QPT_RC ? reliable : 0);
  }
  int RtsMask() const {
    const int reliable =
        IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return IBV_QP_SQ_PSN | (GetParam() == IBV_QPT_RC ? reliable : 0);
  }
  void StepTo(ibv_qp_state last) {
    ASSERT_EQ(Step(IBV_QPS_INIT, InitMask()), 0);
    if (last == IBV_QPS_INIT) return;
    ASSERT_EQ(Step(IBV_QPS_RTR, RtrMask()), 0);
    if (last == IBV_QPS_RTR) return;
    ASSERT_EQ(Step(IBV_QPS_RTS, RtsMask()), 0);
  }

  // Expects the value that was set of every attribute that is valid in `state`, and the attributes
  // of the creation.
  void ExpectAsSet(ibv_qp_state state) {
    set.qp_state = state;
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    std::memset(&attr, 0xee, sizeof attr);
    std::memset(&init, 0xee, sizeof init);
    const int valid = ValidAttributes(GetParam(), state);
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, valid, &init), 0);
    EXPECT_EQ(Differences(attr, set, valid), "") << "in state " << state;
    EXPECT_EQ(attr.cur_qp_state, state);
    EXPECT_EQ(attr.sq_draining, 0);
    EXPECT_EQ(qp->state, state);
    EXPECT_EQ(std::memcmp(&attr.cap, &granted.cap, sizeof granted.cap), 0);
    EXPECT_EQ(std::memcmp(&init.cap, &granted.cap, sizeof granted.cap), 0);
    EXPECT_EQ(init.qp_context, this);
    EXPECT_EQ(init.send_cq, cq.get());
    EXPECT_EQ(init.recv_cq, receive_cq.get());
    EXPECT_EQ(init.srq, nullptr);
    EXPECT_EQ(init.qp_type, GetParam());
    EXPECT_EQ(init.sq_sig_all, 1);
  }

  Host host;
  Cq cq, receive_cq;
  Qp qp;
  ibv_qp_init_attr granted = {};
  ibv_qp_attr set = {};
};

TEST_P(QueryTest, AttributesAreAsTheyWereSetInEveryState) {
  ExpectAsSet(IBV_QPS_RESET);
  ASSERT_EQ(Step(IBV_QPS_INIT, InitMask()), 0);
  ExpectAsSet(IBV_QPS_INIT);
  ASSERT_EQ(Step(IBV_QPS_RTR, RtrMask()), 0);
  ExpectAsSet(IBV_QPS_RTR);
  ASSERT_EQ(Step(IBV_QPS_RTS, RtsMask()), 0);
  ExpectAsSet(IBV_QPS_RTS);
  ASSERT_EQ(Step(IBV_QPS_SQD), 0);
  ExpectAsSet(IBV_QPS_SQD);
  ASSERT_EQ(Step(IBV_QPS_RTS), 0);
  ExpectAsSet(IBV_QPS_RTS);
  ASSERT_EQ(Step(IBV_QPS_ERR), 0);
  ExpectAsSet(IBV_QPS_ERR);
  ASSERT_EQ(Step(IBV_QPS_RESET), 0);
  ExpectAsSet(IBV_QPS_RESET);
}

TEST_P(QueryTest, SendQueueErrorKeepsTheAttributesOfUnreliableServices) {
  if (GetParam() == IBV_QPT_RC) GTEST_SKIP() << "SQE is no state of RC";
  StepTo(IBV_QPS_RTS);
  ibv_ah_attr address = set.ah_attr;
  const Ah ah(ibv_create_ah(host.pd.get(), &address));
  SendRequest unreadable(IBV_WR_SEND, host.Sge(0, 8));
  unreadable.piece.lkey ^= 0xff00;
  if (GetParam() == IBV_QPT_UD) unreadable.To(ah.get(), 1, 1);
  ASSERT_EQ(unreadable.Post(qp.get()), 0);
  EXPECT_EQ(WaitForCompletion(cq.get()).status, IBV_WC_LOC_PROT_ERR);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  const int valid = ValidAttributes(GetParam(), IBV_QPS_SQE) & ~IBV_QP_SQ_PSN;
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, valid, &init), 0);
  set.qp_state = IBV_QPS_SQE;
  EXPECT_EQ(Differences(attr, set, valid), "");
  ASSERT_EQ(Step(IBV_QPS_RTS), 0);
  EXPECT_EQ(Query(qp.get()).qp_state, IBV_QPS_RTS);
}

TEST_P(QueryTest, ValueOutOfRangeIsRefusedAndChangesNothing) {
  struct Case {
    const char* what;
    ibv_qp_state before;
    int attribute;
    std::function<void(ibv_qp_attr&)> spoil;
  };
  const std::vector<Case> cases = {
      {"port 0", IBV_QPS_INIT, IBV_QP_PORT, [](auto& a) { a.port_num = 0; }},
      {"port 2", IBV_QPS_INIT, IBV_QP_PORT, [](auto& a) { a.port_num = 2; }},
      {"P_Key index", IBV_QPS_INIT, IBV_QP_PKEY_INDEX, [](auto& a) { a.pkey_index = 1; }},
      {"MTU 0", IBV_QPS_RTR, IBV_QP_PATH_MTU,
       [](auto& a) { a.path_mtu = static_cast<ibv_mtu>(0); }},
      {"MTU of 9 bits", IBV_QPS_RTR, IBV_QP_PATH_MTU,
       [](auto& a) {
         const int no_mtu = 256 + IBV_MTU_1024;
         std::memcpy(&a.path_mtu, &no_mtu, sizeof no_mtu);
       }},
      {"QPN", IBV_QPS_RTR, IBV_QP_DEST_QPN, [](auto& a) { a.dest_qp_num = 1 << 24; }},
      {"RQ PSN", IBV_QPS_RTR, IBV_QP_RQ_PSN, [](auto& a) { a.rq_psn = 1 << 24; }},
      {"GID index", IBV_QPS_RTR, IBV_QP_AV, [](auto& a) { a.ah_attr.grh.sgid_index = 2; }},
      {"service level", IBV_QPS_RTR, IBV_QP_AV, [](auto& a) { a.ah_attr.sl = 16; }},
      {"no GRH", IBV_QPS_RTR, IBV_QP_AV, [](auto& a) { a.ah_attr.is_global = 0; }},
      {"AV port", IBV_QPS_RTR, IBV_QP_AV, [](auto& a) { a.ah_attr.port_num = 2; }},
      {"max_dest_rd_atomic", IBV_QPS_RTR, IBV_QP_MAX_DEST_RD_ATOMIC,
       [](auto& a) { a.max_dest_rd_atomic = 129; }},
      {"RNR timer", IBV_QPS_RTR, IBV_QP_MIN_RNR_TIMER, [](auto& a) { a.min_rnr_timer = 32; }},
      {"SQ PSN", IBV_QPS_RTS, IBV_QP_SQ_PSN, [](auto& a) { a.sq_psn = 1 << 24; }},
      {"timeout", IBV_QPS_RTS, IBV_QP_TIMEOUT, [](auto& a) { a.timeout = 32; }},
      {"retry_cnt", IBV_QPS_RTS, IBV_QP_RETRY_CNT, [](auto& a) { a.retry_cnt = 8; }},
      {"rnr_retry", IBV_QPS_RTS, IBV_QP_RNR_RETRY, [](auto& a) { a.rnr_retry = 8; }},
      {"max_rd_atomic", IBV_QPS_RTS, IBV_QP_MAX_QP_RD_ATOMIC,
       [](auto& a) { a.max_rd_atomic = 129; }},
  };
  const ibv_qp_attr good = set;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    const int mask = state == IBV_QPS_INIT  ? InitMask()
                     : state == IBV_QPS_RTR ? RtrMask()
                                            : RtsMask();
    for (const Case& one : cases) {
      if (one.before != state || (mask & one.attribute) == 0) continue;
      set = good;
      one.spoil(set);
      EXPECT_EQ(Step(state, mask), EINVAL) << one.what;
      EXPECT_EQ(Query(qp.get()).qp_state, state - 1) << one.what;
    }
    set = good;
    ASSERT_EQ(Step(state, mask), 0);
    ExpectAsSet(state);
  }
}

// Programs set attributes and bits that mean nothing for a queue pair, and NICs ignore them.
TEST_P(QueryTest, UnusedAttributeBitsAreIgnored) {
  set.qp_access_flags = ~0u;
  set.ah_attr.grh.flow_label = ~0u;
  StepTo(IBV_QPS_RTS);
  constexpr unsigned int kFlush = 1u << 8 | 1u << 9;  // IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT
  set.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | kFlush;
  set.ah_attr.grh.flow_label = 0xf'ffff;
  ExpectAsSet(IBV_QPS_RTS);

  ibv_ah_attr address = set.ah_attr;
  address.grh.flow_label = ~0u;
  EXPECT_NE(Ah(ibv_create_ah(host.pd.get(), &address)), nullptr);
  address.sl = 15;
  EXPECT_NE(Ah(ibv_create_ah(host.pd.get(), &address)), nullptr);
  address.sl = 16;
  errno = 0;
  EXPECT_EQ(ibv_create_ah(host.pd.get(), &address), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// A datagram queue pair never has one.
TEST_P(QueryTest, PathThatWasNeverSetIsZero) {
  const auto query = [&] {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    std::memset(&attr, 0xee, sizeof attr);
    EXPECT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_AV, &init), 0);
    const ibv_ah_attr none = {};
    return std::memcmp(&attr.ah_attr, &none, sizeof none) == 0;
  };
  StepTo(IBV_QPS_INIT);
  EXPECT_TRUE(query());
  StepTo(IBV_QPS_RTR);
  EXPECT_EQ(query(), GetParam() == IBV_QPT_UD);
}

TEST_P(QueryTest, AlternatePathThatWasNotLoadedIsZero) {
  if (GetParam() == IBV_QPT_UD) return;
  StepTo(IBV_QPS_RTS);
  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  std::memset(&attr, 0xee, sizeof attr);
  ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_ALT_PATH, &init), 0);
  const ibv_ah_attr none = {};
  EXPECT_EQ(std::memcmp(&attr.alt_ah_attr, &none, sizeof none), 0);
  EXPECT_EQ(attr.alt_port_num, 0);
  EXPECT_EQ(attr.alt_timeout, 0);
  EXPECT_EQ(attr.alt_pkey_index, 0);
}

INSTANTIATE_TEST_SUITE_P(Services, QueryTest, ::testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                         [](const auto& service) { return Name(service.param); });

}  // namespace
}  // namespace uroce::verbs::testing
