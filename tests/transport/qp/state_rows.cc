#include "tests/transport/qp/state_rows.h"

#include <gtest/gtest.h>

#include <bit>

namespace uroce::transport {
namespace {

using S = QpState;

// For every service; the first two from every state.
constexpr StateRow kToReset{S::kReset, S::kReset, "", ""};
constexpr StateRow kToError{S::kError, S::kError, "", ""};
constexpr StateRow kToSendQueueDrain{S::kReadyToSend, S::kSendQueueDrain, "",
                                     "EN_SQD_ASYNC_NOTIFY"};

// For every service but UD.
constexpr StateRow kToInit[] = {
    {S::kReset, S::kInit, "PKEY_INDEX PORT ACCESS_FLAGS", ""},
    {S::kInit, S::kInit, "", "PKEY_INDEX PORT ACCESS_FLAGS"},
};

constexpr StateRow kReliableConnection[] = {
    {S::kInit, S::kReadyToReceive, "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {S::kReadyToReceive, S::kReadyToSend, "SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE RATE_LIMIT"},
    {S::kReadyToSend, S::kReadyToSend, "",
     "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER RATE_LIMIT"},
    {S::kSendQueueDrain, S::kReadyToSend, "",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
    {S::kSendQueueDrain, S::kSendQueueDrain, "",
     "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH "
     "ACCESS_FLAGS "
     "PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE"},
};

constexpr StateRow kUnreliableConnection[] = {
    {S::kInit, S::kReadyToReceive, "AV PATH_MTU DEST_QPN RQ_PSN",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {S::kReadyToReceive, S::kReadyToSend, "SQ_PSN",
     "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE RATE_LIMIT"},
    {S::kReadyToSend, S::kReadyToSend, "",
     "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE RATE_LIMIT"},
    {S::kSendQueueDrain, S::kReadyToSend, "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
    {S::kSendQueueDrain, S::kSendQueueDrain, "",
     "AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE"},
    {S::kSendQueueError, S::kReadyToSend, "", "CUR_STATE ACCESS_FLAGS"},
};

constexpr StateRow kUnreliableDatagram[] = {
    {S::kReset, S::kInit, "PKEY_INDEX PORT QKEY", ""},
    {S::kInit, S::kInit, "", "PKEY_INDEX PORT QKEY"},
    {S::kInit, S::kReadyToReceive, "", "PKEY_INDEX QKEY"},
    {S::kReadyToReceive, S::kReadyToSend, "SQ_PSN", "CUR_STATE QKEY RATE_LIMIT"},
    {S::kReadyToSend, S::kReadyToSend, "", "CUR_STATE QKEY RATE_LIMIT"},
    {S::kSendQueueDrain, S::kReadyToSend, "", "CUR_STATE QKEY"},
    {S::kSendQueueDrain, S::kSendQueueDrain, "", "PKEY_INDEX QKEY"},
    {S::kSendQueueError, S::kReadyToSend, "", "CUR_STATE QKEY"},
};

// The kernel's qp_state_table, XRC_INI and XRC_TGT.
constexpr StateRow kXrcSend[] = {
    {S::kInit, S::kReadyToReceive, "AV PATH_MTU DEST_QPN RQ_PSN",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {S::kReadyToReceive, S::kReadyToSend, "SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC",
     "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE RATE_LIMIT"},
    {S::kReadyToSend, S::kReadyToSend, "",
     "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE RATE_LIMIT"},
    {S::kSendQueueDrain, S::kReadyToSend, "", "CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE"},
    {S::kSendQueueDrain, S::kSendQueueDrain, "",
     "PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX "
     "PATH_MIG_STATE"},
};

constexpr StateRow kXrcReceive[] = {
    {S::kInit, S::kReadyToReceive, "AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER",
     "ALT_PATH ACCESS_FLAGS PKEY_INDEX"},
    {S::kReadyToReceive, S::kReadyToSend, "SQ_PSN TIMEOUT",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
    {S::kReadyToSend, S::kReadyToSend, "",
     "CUR_STATE ACCESS_FLAGS ALT_PATH PATH_MIG_STATE MIN_RNR_TIMER"},
    {S::kSendQueueDrain, S::kReadyToSend, "",
     "CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE"},
    {S::kSendQueueDrain, S::kSendQueueDrain, "",
     "PORT AV TIMEOUT MAX_DEST_RD_ATOMIC ALT_PATH ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER "
     "PATH_MIG_STATE"},
};

// The kernel's qp_state_table, RAW_PACKET.
constexpr StateRow kRawPacket[] = {
    {S::kReset, S::kInit, "PORT", ""},
    {S::kInit, S::kInit, "", ""},
    {S::kInit, S::kReadyToReceive, "", ""},
    {S::kReadyToReceive, S::kReadyToSend, "", "RATE_LIMIT"},
    {S::kReadyToSend, S::kReadyToSend, "", "RATE_LIMIT"},
    {S::kSendQueueDrain, S::kReadyToSend, "", ""},
    {S::kSendQueueDrain, S::kSendQueueDrain, "", ""},
    {S::kSendQueueError, S::kReadyToSend, "", ""},
};
constexpr StateRow kRawToSendQueueDrain = {S::kReadyToSend, S::kSendQueueDrain, "", ""};

std::span<const StateRow> RowsOf(QpType type) {
  switch (type) {
    case QpType::kRawPacket:
      return kRawPacket;
    case QpType::kReliableConnection:
      return kReliableConnection;
    case QpType::kUnreliableConnection:
      return kUnreliableConnection;
    case QpType::kXrcSend:
      return kXrcSend;
    case QpType::kXrcReceive:
      return kXrcReceive;
    default:
      return kUnreliableDatagram;
  }
}

using M = QpAttributeMask;
using A = QpAttributes;

constexpr Attribute kAttributes[] = {
    // These two affect only the call; ibv_query_qp does not show them.
    {"CUR_STATE", M::kCurrentState, [](const A&, A&) {}},
    {"EN_SQD_ASYNC_NOTIFY", M::kEnableSqdNotify, [](const A&, A&) {}},
    {"ACCESS_FLAGS", M::kAccessFlags, [](const A& from, A& to) { to.access = from.access; }},
    {"PKEY_INDEX", M::kPkeyIndex, [](const A& from, A& to) { to.pkey_index = from.pkey_index; }},
    {"PORT", M::kPort, [](const A& from, A& to) { to.port_num = from.port_num; }},
    {"QKEY", M::kQkey, [](const A& from, A& to) { to.qkey = from.qkey; }},
    {"AV", M::kAddressVector, [](const A& from, A& to) { to.address = from.address; }},
    {"PATH_MTU", M::kPathMtu, [](const A& from, A& to) { to.path_mtu = from.path_mtu; }},
    {"TIMEOUT", M::kTimeout, [](const A& from, A& to) { to.timeout = from.timeout; }},
    {"RETRY_CNT", M::kRetryCount, [](const A& from, A& to) { to.retry_count = from.retry_count; }},
    {"RNR_RETRY", M::kRnrRetry, [](const A& from, A& to) { to.rnr_retry = from.rnr_retry; }},
    {"RQ_PSN", M::kRqPsn, [](const A& from, A& to) { to.rq_psn = from.rq_psn; }},
    {"MAX_QP_RD_ATOMIC", M::kMaxReadAtomic,
     [](const A& from, A& to) { to.max_read_atomic = from.max_read_atomic; }},
    {"ALT_PATH", M::kAlternatePath,
     [](const A& from, A& to) {
       to.alternate_address = from.alternate_address;
       to.alternate_pkey_index = from.alternate_pkey_index;
       to.alternate_port_num = from.alternate_port_num;
       to.alternate_timeout = from.alternate_timeout;
     }},
    {"MIN_RNR_TIMER", M::kMinRnrTimer,
     [](const A& from, A& to) { to.min_rnr_timer = from.min_rnr_timer; }},
    {"SQ_PSN", M::kSqPsn, [](const A& from, A& to) { to.sq_psn = from.sq_psn; }},
    {"MAX_DEST_RD_ATOMIC", M::kMaxDestReadAtomic,
     [](const A& from, A& to) { to.max_dest_read_atomic = from.max_dest_read_atomic; }},
    {"PATH_MIG_STATE", M::kMigrationState,
     [](const A& from, A& to) { to.migration_state = from.migration_state; }},
    {"CAP", M::kCapabilities, [](const A& from, A& to) { to.capabilities = from.capabilities; }},
    {"DEST_QPN", M::kDestinationQpn,
     [](const A& from, A& to) { to.destination_qpn = from.destination_qpn; }},
    {"RATE_LIMIT", M::kRateLimit, [](const A& from, A& to) { to.rate_limit = from.rate_limit; }},
};

}  // namespace

const StateRow* FindRow(QpType type, QpState from, QpState to) {
  if (to == S::kReset) return &kToReset;
  if (to == S::kError) return &kToError;
  if (from == S::kReadyToSend && to == S::kSendQueueDrain) {
    return type == QpType::kRawPacket ? &kRawToSendQueueDrain : &kToSendQueueDrain;
  }
  const bool has_rows_of_its_own =
      type == QpType::kUnreliableDatagram || type == QpType::kRawPacket;
  for (const StateRow& row : to == S::kInit && !has_rows_of_its_own ? kToInit : RowsOf(type)) {
    if (row.from == from && row.to == to) return &row;
  }
  return nullptr;
}

std::span<const Attribute> AllAttributes() { return kAttributes; }

uint32_t BitsOf(std::string_view names) {
  uint32_t bits = 0;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(' '));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    const uint32_t before = bits;
    for (const Attribute& attribute : kAttributes) {
      if (attribute.name == name) bits |= attribute.bit;
    }
    EXPECT_NE(bits, before) << "no attribute is called " << name;
  }
  return bits;
}

std::vector<uint32_t> SingleBits(uint32_t bits) {
  std::vector<uint32_t> single;
  for (; bits != 0; bits &= bits - 1) single.push_back(1u << std::countr_zero(bits));
  return single;
}

std::string_view Name(QpState state) {
  static constexpr std::string_view kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<size_t>(state)];
}

std::string_view Name(QpType type) {
  switch (type) {
    case QpType::kReliableConnection:
      return "RC";
    case QpType::kUnreliableConnection:
      return "UC";
    case QpType::kXrcSend:
      return "XRC_SEND";
    case QpType::kXrcReceive:
      return "XRC_RECV";
    case QpType::kRawPacket:
      return "RAW_PACKET";
    default:
      return "UD";
  }
}

}  // namespace uroce::transport
