#include "verbs_provider/base/translate.h"

#include <cstring>

#include "transport/events.h"
#include "transport/memory/memory_table.h"
#include "transport/psn.h"
#include "transport/work_request.h"
#include "verbs_provider/abi/newer_verbs.h"

namespace uroce::verbs {
namespace {

using transport::AccessFlags;
using transport::Completion;
using transport::CompletionOpcode;
using transport::CompletionStatus;
using transport::EventType;
using transport::Mtu;
using transport::Placement;
using transport::QpAttributeMask;
using transport::QpState;
using transport::QpType;
using transport::Selectivity;
using transport::SendOpcode;
using transport::WindowType;

template <class Ours, class Theirs>
constexpr bool Same(Ours ours, Theirs theirs) {
  return static_cast<int64_t>(ours) == static_cast<int64_t>(theirs);
}

static_assert(Same(AccessFlags::kLocalWrite, IBV_ACCESS_LOCAL_WRITE));
static_assert(Same(AccessFlags::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE));
static_assert(Same(AccessFlags::kRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(Same(AccessFlags::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(Same(AccessFlags::kWindowBind, IBV_ACCESS_MW_BIND));
static_assert(Same(AccessFlags::kZeroBased, IBV_ACCESS_ZERO_BASED));
static_assert(Same(AccessFlags::kFlushGlobal, abi::kAccessFlushGlobal));

static_assert(Same(CompletionStatus::kSuccess, IBV_WC_SUCCESS));
static_assert(Same(CompletionStatus::kLocalLengthError, IBV_WC_LOC_LEN_ERR));
static_assert(Same(CompletionStatus::kLocalQpOperationError, IBV_WC_LOC_QP_OP_ERR));
static_assert(Same(CompletionStatus::kLocalProtectionError, IBV_WC_LOC_PROT_ERR));
static_assert(Same(CompletionStatus::kFlushed, IBV_WC_WR_FLUSH_ERR));
static_assert(Same(CompletionStatus::kMemoryManagementError, IBV_WC_MW_BIND_ERR));
static_assert(Same(CompletionStatus::kBadResponse, IBV_WC_BAD_RESP_ERR));
static_assert(Same(CompletionStatus::kLocalAccessError, IBV_WC_LOC_ACCESS_ERR));
static_assert(Same(CompletionStatus::kRemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR));
static_assert(Same(CompletionStatus::kRemoteAccessError, IBV_WC_REM_ACCESS_ERR));
static_assert(Same(CompletionStatus::kRemoteOperationError, IBV_WC_REM_OP_ERR));
static_assert(Same(CompletionStatus::kRetryExceeded, IBV_WC_RETRY_EXC_ERR));
static_assert(Same(CompletionStatus::kRnrRetryExceeded, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(Same(CompletionStatus::kRemoteAborted, IBV_WC_REM_ABORT_ERR));
static_assert(Same(CompletionStatus::kFatal, IBV_WC_FATAL_ERR));
static_assert(Same(CompletionStatus::kGeneralError, IBV_WC_GENERAL_ERR));

static_assert(Same(CompletionOpcode::kSend, IBV_WC_SEND));
static_assert(Same(CompletionOpcode::kRdmaWrite, IBV_WC_RDMA_WRITE));
static_assert(Same(CompletionOpcode::kRdmaRead, IBV_WC_RDMA_READ));
static_assert(Same(CompletionOpcode::kCompareAndSwap, IBV_WC_COMP_SWAP));
static_assert(Same(CompletionOpcode::kFetchAndAdd, IBV_WC_FETCH_ADD));
static_assert(Same(CompletionOpcode::kBindWindow, IBV_WC_BIND_MW));
static_assert(Same(CompletionOpcode::kLocalInvalidate, IBV_WC_LOCAL_INV));
static_assert(Same(CompletionOpcode::kFlush, abi::kWcFlush));
static_assert(Same(CompletionOpcode::kAtomicWrite, abi::kWcAtomicWrite));
static_assert(Same(CompletionOpcode::kReceive, IBV_WC_RECV));
static_assert(Same(CompletionOpcode::kReceiveRdmaWithImmediate, IBV_WC_RECV_RDMA_WITH_IMM));

static_assert(Same(Completion::kHasGrh, IBV_WC_GRH));
static_assert(Same(Completion::kHasImmediate, IBV_WC_WITH_IMM));
static_assert(Same(Completion::kHasInvalidate, IBV_WC_WITH_INV));

static_assert(Same(EventType::kCqError, IBV_EVENT_CQ_ERR));
static_assert(Same(EventType::kQpFatal, IBV_EVENT_QP_FATAL));
static_assert(Same(EventType::kQpRequestError, IBV_EVENT_QP_REQ_ERR));
static_assert(Same(EventType::kQpAccessError, IBV_EVENT_QP_ACCESS_ERR));
static_assert(Same(EventType::kCommunicationEstablished, IBV_EVENT_COMM_EST));
static_assert(Same(EventType::kSendQueueDrained, IBV_EVENT_SQ_DRAINED));
static_assert(Same(EventType::kPathMigrated, IBV_EVENT_PATH_MIG));
static_assert(Same(EventType::kPathMigrationError, IBV_EVENT_PATH_MIG_ERR));
static_assert(Same(EventType::kDeviceFatal, IBV_EVENT_DEVICE_FATAL));
static_assert(Same(EventType::kSrqLimitReached, IBV_EVENT_SRQ_LIMIT_REACHED));
static_assert(Same(EventType::kLastWqeReached, IBV_EVENT_QP_LAST_WQE_REACHED));

static_assert(Same(SendOpcode::kRdmaWrite, IBV_WR_RDMA_WRITE));
static_assert(Same(SendOpcode::kRdmaWriteWithImmediate, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(Same(SendOpcode::kSend, IBV_WR_SEND));
static_assert(Same(SendOpcode::kSendWithImmediate, IBV_WR_SEND_WITH_IMM));
static_assert(Same(SendOpcode::kRdmaRead, IBV_WR_RDMA_READ));
static_assert(Same(SendOpcode::kCompareAndSwap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(Same(SendOpcode::kFetchAndAdd, IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(Same(SendOpcode::kLocalInvalidate, IBV_WR_LOCAL_INV));
static_assert(Same(SendOpcode::kBindWindow, IBV_WR_BIND_MW));
static_assert(Same(SendOpcode::kSendWithInvalidate, IBV_WR_SEND_WITH_INV));
static_assert(Same(SendOpcode::kFlush, abi::kWrFlush));
static_assert(Same(SendOpcode::kAtomicWrite, abi::kWrAtomicWrite));

static_assert(Same(Placement::kGlobal, abi::kFlushGlobal));
static_assert(Same(Placement::kPersistent, abi::kFlushPersistent));
static_assert(Same(Selectivity::kRange, abi::kFlushRange));
static_assert(Same(Selectivity::kRegion, abi::kFlushMr));

static_assert(Same(QpState::kReset, IBV_QPS_RESET));
static_assert(Same(QpState::kInit, IBV_QPS_INIT));
static_assert(Same(QpState::kReadyToReceive, IBV_QPS_RTR));
static_assert(Same(QpState::kReadyToSend, IBV_QPS_RTS));
static_assert(Same(QpState::kSendQueueDrain, IBV_QPS_SQD));
static_assert(Same(QpState::kSendQueueError, IBV_QPS_SQE));
static_assert(Same(QpState::kError, IBV_QPS_ERR));

static_assert(Same(QpType::kReliableConnection, IBV_QPT_RC));
static_assert(Same(QpType::kUnreliableConnection, IBV_QPT_UC));
static_assert(Same(QpType::kUnreliableDatagram, IBV_QPT_UD));
static_assert(Same(QpType::kRawPacket, IBV_QPT_RAW_PACKET));

static_assert(Same(Mtu::k256, IBV_MTU_256));
static_assert(Same(Mtu::k4096, IBV_MTU_4096));

static_assert(Same(transport::MigrationState::kMigrated, IBV_MIG_MIGRATED));
static_assert(Same(transport::MigrationState::kRearm, IBV_MIG_REARM));
static_assert(Same(transport::MigrationState::kArmed, IBV_MIG_ARMED));

static_assert(Same(WindowType::kType1, IBV_MW_TYPE_1));
static_assert(Same(WindowType::kType2, IBV_MW_TYPE_2));

static_assert(Same(QpAttributeMask::kState, IBV_QP_STATE));
static_assert(Same(QpAttributeMask::kCurrentState, IBV_QP_CUR_STATE));
static_assert(Same(QpAttributeMask::kEnableSqdNotify, IBV_QP_EN_SQD_ASYNC_NOTIFY));
static_assert(Same(QpAttributeMask::kAccessFlags, IBV_QP_ACCESS_FLAGS));
static_assert(Same(QpAttributeMask::kPkeyIndex, IBV_QP_PKEY_INDEX));
static_assert(Same(QpAttributeMask::kPort, IBV_QP_PORT));
static_assert(Same(QpAttributeMask::kQkey, IBV_QP_QKEY));
static_assert(Same(QpAttributeMask::kAddressVector, IBV_QP_AV));
static_assert(Same(QpAttributeMask::kPathMtu, IBV_QP_PATH_MTU));
static_assert(Same(QpAttributeMask::kTimeout, IBV_QP_TIMEOUT));
static_assert(Same(QpAttributeMask::kRetryCount, IBV_QP_RETRY_CNT));
static_assert(Same(QpAttributeMask::kRnrRetry, IBV_QP_RNR_RETRY));
static_assert(Same(QpAttributeMask::kRqPsn, IBV_QP_RQ_PSN));
static_assert(Same(QpAttributeMask::kMaxReadAtomic, IBV_QP_MAX_QP_RD_ATOMIC));
static_assert(Same(QpAttributeMask::kAlternatePath, IBV_QP_ALT_PATH));
static_assert(Same(QpAttributeMask::kMinRnrTimer, IBV_QP_MIN_RNR_TIMER));
static_assert(Same(QpAttributeMask::kSqPsn, IBV_QP_SQ_PSN));
static_assert(Same(QpAttributeMask::kMaxDestReadAtomic, IBV_QP_MAX_DEST_RD_ATOMIC));
static_assert(Same(QpAttributeMask::kMigrationState, IBV_QP_PATH_MIG_STATE));
static_assert(Same(QpAttributeMask::kCapabilities, IBV_QP_CAP));
static_assert(Same(QpAttributeMask::kDestinationQpn, IBV_QP_DEST_QPN));
static_assert(Same(QpAttributeMask::kRateLimit, IBV_QP_RATE_LIMIT));

// Programs give a queue pair the access flags of their regions; only these apply to a queue pair.
constexpr unsigned int kQpAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_MW_BIND | abi::kAccessFlushGlobal |
                                   abi::kAccessFlushPersistent;
// The IPv6 header has 20 bits for it. Programs set all 32 and NICs send the lower ones.
constexpr uint32_t kFlowLabelMask = 0xf'ffff;

}  // namespace

AccessFlags ToAccessFlags(unsigned int ibv_access_flags) { return AccessFlags(ibv_access_flags); }

transport::QpCapabilities ToCapabilities(const ibv_qp_cap& cap) {
  return {.max_send_wr = cap.max_send_wr,
          .max_receive_wr = cap.max_recv_wr,
          .max_send_sge = cap.max_send_sge,
          .max_receive_sge = cap.max_recv_sge,
          .max_inline_bytes = cap.max_inline_data};
}

ibv_qp_cap FromCapabilities(const transport::QpCapabilities& capabilities) {
  return {.max_send_wr = capabilities.max_send_wr,
          .max_recv_wr = capabilities.max_receive_wr,
          .max_send_sge = capabilities.max_send_sge,
          .max_recv_sge = capabilities.max_receive_sge,
          .max_inline_data = capabilities.max_inline_bytes};
}

transport::Gid ToGid(const ibv_gid& gid) {
  transport::Gid out;
  std::memcpy(out.bytes.data(), gid.raw, sizeof gid.raw);
  return out;
}

transport::AddressVector ToAddressVector(const ibv_ah_attr& attr) {
  transport::AddressVector address;
  address.destination_gid = ToGid(attr.grh.dgid);
  address.flow_label = attr.grh.flow_label & kFlowLabelMask;
  address.source_gid_index = attr.grh.sgid_index;
  address.hop_limit = attr.grh.hop_limit;
  address.traffic_class = attr.grh.traffic_class;
  address.service_level = attr.sl;
  address.static_rate = attr.static_rate;
  address.port_num = attr.port_num;
  return address;
}

ibv_ah_attr FromAddressVector(const transport::AddressVector& address) {
  ibv_ah_attr attr = {};
  if (address.destination_gid.IsZero()) return attr;  // never set
  std::memcpy(attr.grh.dgid.raw, address.destination_gid.bytes.data(), sizeof attr.grh.dgid.raw);
  attr.grh.flow_label = address.flow_label;
  attr.grh.sgid_index = address.source_gid_index;
  attr.grh.hop_limit = address.hop_limit;
  attr.grh.traffic_class = address.traffic_class;
  attr.sl = address.service_level;
  attr.static_rate = address.static_rate;
  attr.is_global = 1;  // RoCE has no other route
  attr.port_num = address.port_num;
  return attr;
}

transport::QpAttributes ToQpAttributes(const ibv_qp_attr& attr, uint32_t mask) {
  const auto has = [mask](uint32_t bit) { return (mask & bit) != 0; };
  transport::QpAttributes out;
  if (has(IBV_QP_STATE)) out.state = static_cast<QpState>(attr.qp_state);
  if (has(IBV_QP_CUR_STATE)) out.current_state = static_cast<QpState>(attr.cur_qp_state);
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) out.enable_sqd_notify = attr.en_sqd_async_notify != 0;
  if (has(IBV_QP_ACCESS_FLAGS)) out.access = ToAccessFlags(attr.qp_access_flags & kQpAccess);
  if (has(IBV_QP_PKEY_INDEX)) out.pkey_index = attr.pkey_index;
  if (has(IBV_QP_PORT)) out.port_num = attr.port_num;
  if (has(IBV_QP_QKEY)) out.qkey = attr.qkey;
  if (has(IBV_QP_AV)) out.address = ToAddressVector(attr.ah_attr);
  if (has(IBV_QP_PATH_MTU)) out.path_mtu = static_cast<Mtu>(attr.path_mtu);
  if (has(IBV_QP_TIMEOUT)) out.timeout = attr.timeout;
  if (has(IBV_QP_RETRY_CNT)) out.retry_count = attr.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) out.rnr_retry = attr.rnr_retry;
  if (has(IBV_QP_RQ_PSN)) out.rq_psn = transport::Psn(attr.rq_psn);
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) out.max_read_atomic = attr.max_rd_atomic;
  if (has(IBV_QP_ALT_PATH)) {
    out.alternate_address = ToAddressVector(attr.alt_ah_attr);
    out.alternate_pkey_index = attr.alt_pkey_index;
    out.alternate_port_num = attr.alt_port_num;
    out.alternate_timeout = attr.alt_timeout;
  }
  if (has(IBV_QP_MIN_RNR_TIMER)) out.min_rnr_timer = attr.min_rnr_timer;
  if (has(IBV_QP_SQ_PSN)) out.sq_psn = transport::Psn(attr.sq_psn);
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) out.max_dest_read_atomic = attr.max_dest_rd_atomic;
  if (has(IBV_QP_PATH_MIG_STATE)) {
    out.migration_state = static_cast<transport::MigrationState>(attr.path_mig_state);
  }
  if (has(IBV_QP_CAP)) out.capabilities = ToCapabilities(attr.cap);
  if (has(IBV_QP_RATE_LIMIT)) out.rate_limit.kbps = attr.rate_limit;
  if (has(IBV_QP_DEST_QPN)) out.destination_qpn = transport::Qpn{attr.dest_qp_num};
  return out;
}

ibv_qp_attr FromQpAttributes(const transport::QpAttributes& attributes) {
  ibv_qp_attr attr = {};
  attr.qp_state = static_cast<ibv_qp_state>(attributes.state);
  attr.cur_qp_state = static_cast<ibv_qp_state>(attributes.current_state);
  attr.path_mtu = static_cast<ibv_mtu>(attributes.path_mtu);
  attr.path_mig_state = static_cast<ibv_mig_state>(attributes.migration_state);
  attr.qkey = attributes.qkey;
  attr.rq_psn = attributes.rq_psn.value();
  attr.sq_psn = attributes.sq_psn.value();
  attr.dest_qp_num = attributes.destination_qpn.value;
  attr.qp_access_flags = attributes.access.bits();
  attr.cap = FromCapabilities(attributes.capabilities);
  attr.ah_attr = FromAddressVector(attributes.address);
  if (attributes.alternate_port_num != 0) {
    attr.alt_ah_attr = FromAddressVector(attributes.alternate_address);
    attr.alt_pkey_index = attributes.alternate_pkey_index;
    attr.alt_port_num = attributes.alternate_port_num;
    attr.alt_timeout = attributes.alternate_timeout;
  }
  attr.pkey_index = attributes.pkey_index;
  attr.en_sqd_async_notify = attributes.enable_sqd_notify;
  attr.sq_draining = attributes.sq_draining;
  attr.max_rd_atomic = attributes.max_read_atomic;
  attr.max_dest_rd_atomic = attributes.max_dest_read_atomic;
  attr.min_rnr_timer = attributes.min_rnr_timer;
  attr.port_num = attributes.port_num;
  attr.timeout = attributes.timeout;
  attr.retry_cnt = attributes.retry_count;
  attr.rnr_retry = attributes.rnr_retry;
  attr.rate_limit = attributes.rate_limit.kbps;
  return attr;
}

}  // namespace uroce::verbs
