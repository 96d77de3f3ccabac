// The valid values of each attribute of ibv_modify_qp, and their invalid neighbours (IBA 11.2.5.2;
// the manual page of ibv_modify_qp).

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/transport/qp/sample_queue_pair.h"
#include "tests/transport/qp/state_rows.h"
#include "transport/limits.h"

namespace uroce::transport {
namespace {

using A = QpAttributes;

struct ValueCase {
  const char* name;  // of the attribute, as in the tables
  const char* value;
  QpState from;
  QpState to;
  bool valid;
  void (*set)(QpAttributes& attributes);
};

constexpr QpState kReset = QpState::kReset;
constexpr QpState kInit = QpState::kInit;
constexpr QpState kRtr = QpState::kReadyToReceive;
constexpr QpState kRts = QpState::kReadyToSend;
constexpr QpState kSqd = QpState::kSendQueueDrain;

// clang-format off
const ValueCase kCases[] = {
    {"PKEY_INDEX", "first", kReset, kInit, true, [](A& a) { a.pkey_index = 0; }},
    {"PKEY_INDEX", "second", kReset, kInit, false, [](A& a) { a.pkey_index = 1; }},
    {"PKEY_INDEX", "last", kReset, kInit, false, [](A& a) { a.pkey_index = 0xffff; }},
    {"PORT", "zero", kReset, kInit, false, [](A& a) { a.port_num = 0; }},
    {"PORT", "one", kReset, kInit, true, [](A& a) { a.port_num = 1; }},
    {"PORT", "two", kReset, kInit, false, [](A& a) { a.port_num = 2; }},
    {"PATH_MTU", "zero", kInit, kRtr, false, [](A& a) { a.path_mtu = static_cast<Mtu>(0); }},
    {"PATH_MTU", "256", kInit, kRtr, true, [](A& a) { a.path_mtu = Mtu::k256; }},
    {"PATH_MTU", "4096", kInit, kRtr, true, [](A& a) { a.path_mtu = Mtu::k4096; }},
    {"PATH_MTU", "8192", kInit, kRtr, false, [](A& a) { a.path_mtu = static_cast<Mtu>(6); }},
    {"PATH_MTU", "255", kInit, kRtr, false, [](A& a) { a.path_mtu = static_cast<Mtu>(255); }},
    {"DEST_QPN", "last", kInit, kRtr, true, [](A& a) { a.destination_qpn = Qpn{0xff'ffff}; }},
    {"DEST_QPN", "over", kInit, kRtr, false, [](A& a) { a.destination_qpn = Qpn{0x100'0000}; }},
    {"MAX_DEST_RD_ATOMIC", "none", kInit, kRtr, true, [](A& a) { a.max_dest_read_atomic = 0; }},
    {"MAX_DEST_RD_ATOMIC", "all", kInit, kRtr, true,
     [](A& a) { a.max_dest_read_atomic = kMaxReadAtomics; }},
    {"MAX_DEST_RD_ATOMIC", "over", kInit, kRtr, false,
     [](A& a) { a.max_dest_read_atomic = kMaxReadAtomics + 1; }},
    {"MIN_RNR_TIMER", "zero", kInit, kRtr, true, [](A& a) { a.min_rnr_timer = 0; }},
    {"MIN_RNR_TIMER", "31", kInit, kRtr, true, [](A& a) { a.min_rnr_timer = 31; }},
    {"MIN_RNR_TIMER", "32", kInit, kRtr, false, [](A& a) { a.min_rnr_timer = 32; }},
    {"TIMEOUT", "zero", kRtr, kRts, true, [](A& a) { a.timeout = 0; }},
    {"TIMEOUT", "31", kRtr, kRts, true, [](A& a) { a.timeout = 31; }},
    {"TIMEOUT", "32", kRtr, kRts, false, [](A& a) { a.timeout = 32; }},
    {"RETRY_CNT", "zero", kRtr, kRts, true, [](A& a) { a.retry_count = 0; }},
    {"RETRY_CNT", "seven", kRtr, kRts, true, [](A& a) { a.retry_count = 7; }},
    {"RETRY_CNT", "eight", kRtr, kRts, false, [](A& a) { a.retry_count = 8; }},
    {"RNR_RETRY", "zero", kRtr, kRts, true, [](A& a) { a.rnr_retry = 0; }},
    {"RNR_RETRY", "seven", kRtr, kRts, true, [](A& a) { a.rnr_retry = 7; }},
    {"RNR_RETRY", "eight", kRtr, kRts, false, [](A& a) { a.rnr_retry = 8; }},
    {"MAX_QP_RD_ATOMIC", "none", kRtr, kRts, true, [](A& a) { a.max_read_atomic = 0; }},
    {"MAX_QP_RD_ATOMIC", "all", kRtr, kRts, true,
     [](A& a) { a.max_read_atomic = kMaxReadAtomics; }},
    {"MAX_QP_RD_ATOMIC", "over", kRtr, kRts, false,
     [](A& a) { a.max_read_atomic = kMaxReadAtomics + 1; }},
    {"AV", "last_gid_index", kInit, kRtr, true, [](A& a) { a.address.source_gid_index = 2; }},
    {"AV", "no_gid_index", kInit, kRtr, false, [](A& a) { a.address.source_gid_index = 3; }},
    // An index beyond the table is invalid for either IP version.
    {"AV", "no_gid_index_and_ipv6", kInit, kRtr, false,
     [](A& a) {
       a.address.source_gid_index = 3;
       a.address.destination_gid = Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
     }},
    {"AV", "gid_index_255", kInit, kRtr, false, [](A& a) { a.address.source_gid_index = 255; }},
    {"AV", "other_ip_version", kInit, kRtr, false, [](A& a) { a.address.source_gid_index = 0; }},
    {"AV", "no_destination", kInit, kRtr, false, [](A& a) { a.address.destination_gid = {}; }},
    {"AV", "port_zero", kInit, kRtr, false, [](A& a) { a.address.port_num = 0; }},
    {"AV", "port_two", kInit, kRtr, false, [](A& a) { a.address.port_num = 2; }},
    {"AV", "flow_label_of_20_bits", kInit, kRtr, true,
     [](A& a) { a.address.flow_label = 0xf'ffff; }},
    {"AV", "flow_label_of_21_bits", kInit, kRtr, false,
     [](A& a) { a.address.flow_label = 0x10'0000; }},
    {"AV", "no_gid_index_in_sqd", kSqd, kSqd, false, [](A& a) { a.address.source_gid_index = 3; }},
    {"ALT_PATH", "right", kRts, kRts, true, [](A&) {}},
    {"ALT_PATH", "port_two", kRts, kRts, false, [](A& a) { a.alternate_port_num = 2; }},
    {"ALT_PATH", "second_pkey", kRts, kRts, false, [](A& a) { a.alternate_pkey_index = 1; }},
    {"ALT_PATH", "timeout_32", kRts, kRts, false, [](A& a) { a.alternate_timeout = 32; }},
    {"ALT_PATH", "no_gid_index", kRts, kRts, false,
     [](A& a) { a.alternate_address.source_gid_index = 3; }},
    {"PATH_MIG_STATE", "migrated", kRts, kRts, true,
     [](A& a) { a.migration_state = MigrationState::kMigrated; }},
    {"PATH_MIG_STATE", "rearm_without_alternate", kRts, kRts, false,
     [](A& a) { a.migration_state = MigrationState::kRearm; }},
    {"PATH_MIG_STATE", "armed", kRts, kRts, false,
     [](A& a) { a.migration_state = MigrationState::kArmed; }},
    {"TIMEOUT", "32_in_sqd", kSqd, kSqd, false, [](A& a) { a.timeout = 32; }},
    {"MAX_DEST_RD_ATOMIC", "over_in_sqd", kSqd, kSqd, false,
     [](A& a) { a.max_dest_read_atomic = kMaxReadAtomics + 1; }},
    {"MIN_RNR_TIMER", "32_in_rts", kRts, kRts, false, [](A& a) { a.min_rnr_timer = 32; }},
};
// clang-format on

class AttributeValuesTest : public testing::TestWithParam<ValueCase> {};

TEST_P(AttributeValuesTest, IsTakenOrRefusedWithoutAnyChange) {
  const ValueCase& value = GetParam();
  const StateRow* row = FindRow(QpType::kReliableConnection, value.from, value.to);
  ASSERT_NE(row, nullptr);
  SampleQueuePair qp(QpType::kReliableConnection, value.from);
  const std::string before = qp.Query();

  QpAttributes wanted = AttributesOf(Sample::kSecond);
  wanted.current_state = value.from;
  value.set(wanted);
  const uint32_t mask = BitsOf(row->required) | BitsOf(value.name);
  if (!value.valid) {
    EXPECT_EQ(qp.Modify(wanted, value.to, mask), Status::kInvalidArgument);
    EXPECT_EQ(qp.Query(), before);
    return;
  }
  QpAttributes expected = qp->Query();
  for (const Attribute& attribute : AllAttributes()) {
    if ((mask & attribute.bit) != 0) attribute.copy(wanted, expected);
  }
  expected.state = expected.current_state = value.to;
  EXPECT_EQ(qp.Modify(wanted, value.to, mask), Status::kOk);
  EXPECT_EQ(qp.Query(), Describe(expected));
}

std::string NameOf(const testing::TestParamInfo<ValueCase>& info) {
  return std::string(info.param.name) + '_' + info.param.value;
}

INSTANTIATE_TEST_SUITE_P(EveryBound, AttributeValuesTest, testing::ValuesIn(kCases), NameOf);

// A path MTU must fit into the port's IP packets together with IPv6 40, UDP 8, BTH 12, the longest
// extension headers 28 and the ICRC 4.
TEST(PathMtuTest, IsBoundedByThePort) {
  constexpr uint32_t kHeaders = 40 + 8 + 12 + 28 + 4;
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    for (const bool fits : {true, false}) {
      const uint32_t port_mtu = Bytes(mtu) + kHeaders - (fits ? 0 : 1);
      SampleQueuePair qp(QpType::kReliableConnection, kInit, port_mtu);
      QpAttributes wanted = AttributesOf(Sample::kFirst);
      wanted.path_mtu = mtu;
      const StateRow* row = FindRow(QpType::kReliableConnection, kInit, kRtr);
      EXPECT_EQ(qp.Modify(wanted, kRtr, BitsOf(row->required)),
                fits ? Status::kOk : Status::kInvalidArgument);
    }
  }
}

TEST(AttributeMaskTest, ValuesOutsideTheMaskAreIgnored) {
  SampleQueuePair qp(QpType::kReliableConnection, kRts);
  QpAttributes expected = qp->Query();
  QpAttributes wanted;
  wanted.min_rnr_timer = 3;
  wanted.timeout = wanted.retry_count = wanted.rnr_retry = 255;
  wanted.address.source_gid_index = 255;
  wanted.path_mtu = static_cast<Mtu>(77);
  EXPECT_EQ(qp.Modify(wanted, kRts, QpAttributeMask::kMinRnrTimer), Status::kOk);
  expected.min_rnr_timer = 3;
  EXPECT_EQ(qp.Query(), Describe(expected));
}

}  // namespace
}  // namespace uroce::transport
