// ibv_modify_qp and ibv_query_qp: a refused change has no effect, an accepted one is reported.
#include <tuple>

#include "tests/fuzz/require.h"
#include "tests/fuzz/verbs_host.h"

namespace uroce::transport {
namespace {

using A = AccessFlags;
using M = QpAttributeMask;

constexpr Psn kFirstPsn{0xff'fffa};
constexpr uint32_t kQkey = 0x42;
constexpr uint32_t kAttributes = ((M::kDestinationQpn << 1) - 1) | M::kRateLimit;

// All fields that ibv_query_qp reports.
auto All(const QpAttributes& a) {
  return std::tie(a.state, a.current_state, a.path_mtu, a.migration_state, a.qkey, a.rq_psn,
                  a.sq_psn, a.destination_qpn, a.access, a.capabilities, a.address,
                  a.alternate_address, a.pkey_index, a.alternate_pkey_index, a.enable_sqd_notify,
                  a.sq_draining, a.max_read_atomic, a.max_dest_read_atomic, a.min_rnr_timer,
                  a.port_num, a.timeout, a.retry_count, a.rnr_retry, a.alternate_port_num,
                  a.alternate_timeout, a.rate_limit);
}

// The attributes of `mask` must be those of `given`.
void RequireSet(const QpAttributes& given, const QpAttributes& found, uint32_t mask) {
  const auto is = [mask](uint32_t bit, const auto& a, const auto& b) {
    UROCE_REQUIRE((mask & bit) == 0 || a == b);
  };
  is(M::kAccessFlags, found.access, given.access);
  is(M::kPkeyIndex, found.pkey_index, given.pkey_index);
  is(M::kPort, found.port_num, given.port_num);
  is(M::kQkey, found.qkey, given.qkey);
  is(M::kAddressVector, found.address, given.address);
  is(M::kPathMtu, found.path_mtu, given.path_mtu);
  is(M::kTimeout, found.timeout, given.timeout);
  is(M::kRetryCount, found.retry_count, given.retry_count);
  is(M::kRnrRetry, found.rnr_retry, given.rnr_retry);
  is(M::kRqPsn, found.rq_psn, given.rq_psn);
  is(M::kMaxReadAtomic, found.max_read_atomic, given.max_read_atomic);
  is(M::kAlternatePath, found.alternate_address, given.alternate_address);
  is(M::kMinRnrTimer, found.min_rnr_timer, given.min_rnr_timer);
  is(M::kSqPsn, found.sq_psn, given.sq_psn);
  is(M::kMaxDestReadAtomic, found.max_dest_read_atomic, given.max_dest_read_atomic);
  is(M::kRateLimit, found.rate_limit, given.rate_limit);
  is(M::kDestinationQpn, found.destination_qpn, given.destination_qpn);
}

// The attributes that the next step through the states needs.
struct Step {
  QpState next = QpState::kReset;
  uint32_t rc = 0, uc = 0, ud = 0;
};

Step StepFrom(QpState state) {
  constexpr uint32_t kStart = M::kPkeyIndex | M::kPort;
  constexpr uint32_t kPath = M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn;
  constexpr uint32_t kRetries = M::kTimeout | M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic;
  switch (state) {
    case QpState::kReset:
      return {QpState::kInit, kStart | M::kAccessFlags, kStart | M::kAccessFlags,
              kStart | M::kQkey};
    case QpState::kInit:
      return {QpState::kReadyToReceive, kPath | M::kMaxDestReadAtomic | M::kMinRnrTimer, kPath, 0};
    case QpState::kReadyToReceive:
      return {QpState::kReadyToSend, M::kSqPsn | kRetries, M::kSqPsn, M::kSqPsn};
    case QpState::kReadyToSend:
      return {QpState::kSendQueueDrain};
    case QpState::kSendQueueDrain:
    case QpState::kSendQueueError:
      return {QpState::kReadyToSend};
    default:
      return {QpState::kReset};
  }
}

}  // namespace

void VerbsHost::Modify(QpSlot& slot, const QpAttributes& attributes, uint32_t mask) {
  const QpAttributes before = slot.qp->Query();
  const Status foretold = slot.qp->CheckModify(attributes, mask);
  UROCE_REQUIRE(All(slot.qp->Query()) == All(before));
  const Status status = slot.qp->Modify(attributes, mask);
  UROCE_REQUIRE(status == foretold);
  const QpAttributes after = slot.qp->Query();
  if (status != Status::kOk) {
    UROCE_REQUIRE(status == Status::kInvalidArgument && All(after) == All(before));
    return;
  }
  const QpState next = (mask & M::kState) != 0 ? attributes.state : before.state;
  UROCE_REQUIRE(after.state == next && after.capabilities == before.capabilities);
  if (next == QpState::kReset) {
    UROCE_REQUIRE(after.destination_qpn == Qpn{} && after.qkey == 0 && after.sq_psn == Psn());
    OpenAccounts(slot);  // posted requests vanish
    return;
  }
  // After a migration the queue pair has the path of the alternate attributes.
  const bool migrates = before.migration_state == MigrationState::kArmed &&
                        after.migration_state == MigrationState::kMigrated;
  constexpr uint32_t kPath = M::kAddressVector | M::kPkeyIndex | M::kPort | M::kTimeout;
  RequireSet(attributes, after, migrates ? mask & ~kPath : mask);
  if (before.state == QpState::kSendQueueError && next == QpState::kReadyToSend) {
    ledger_.Recover(slot.sends);
  }
}

AddressVector VerbsHost::AddressOf(Record& record, const VerbsHost& peer) const {
  const VerbsHost& to = record.Below(8) == 0 ? *this : peer;
  const uint8_t gid_index = record.Flag() ? 0 : 1;
  return {.destination_gid = to.endpoint_.config().gids[gid_index],
          .destination_mac = to.endpoint_.config().mac,
          .source_gid_index = gid_index};
}

QpAttributes VerbsHost::Sensible(Record& record, const QpSlot& slot, const VerbsHost& peer) const {
  const auto index = static_cast<size_t>(&slot - qps_.data());
  const QpSlot& other = peer.qps_[record.Below(8) == 0 ? record.Below(kQps) : index];
  QpAttributes a;
  a.port_num = 1;
  a.qkey = kQkey;
  a.access = AccessFlags(A::kRemoteWrite | A::kRemoteRead | A::kRemoteAtomic | A::kFlushGlobal);
  a.path_mtu = record.Flag() ? Mtu::k512 : Mtu::k256;
  a.destination_qpn = other.qp == nullptr ? Qpn{0x999} : other.qp->qpn();
  a.rq_psn = a.sq_psn = kFirstPsn;
  a.max_read_atomic = a.max_dest_read_atomic = static_cast<uint8_t>(record.Below(4));
  a.min_rnr_timer = 1;
  a.timeout = static_cast<uint8_t>(record.Below(16));
  a.retry_count = static_cast<uint8_t>(record.Below(8));
  a.rnr_retry = static_cast<uint8_t>(record.Below(8));
  a.address = AddressOf(record, peer);
  a.enable_sqd_notify = record.Flag();
  return a;
}

void VerbsHost::Advance(Record& record, const VerbsHost& peer) {
  QpSlot& slot = qps_[record.Below(kQps)];
  if (slot.qp == nullptr) return;
  const Step step = StepFrom(slot.qp->state());
  const QpType type = slot.qp->init_attributes().type;
  QpAttributes attributes = Sensible(record, slot, peer);
  attributes.state = step.next;
  const uint32_t mask = type == QpType::kReliableConnection     ? step.rc
                        : type == QpType::kUnreliableConnection ? step.uc
                                                                : step.ud;
  UROCE_REQUIRE(slot.qp->CheckModify(attributes, M::kState | mask) == Status::kOk);
  Modify(slot, attributes, M::kState | mask);
}

void VerbsHost::ModifyAtRandom(Record& record, const VerbsHost& peer) {
  QpSlot& slot = qps_[record.Below(kQps)];
  if (slot.qp == nullptr) return;
  const uint32_t mask = record.DoubleWord() & kAttributes;
  QpAttributes a = Sensible(record, slot, peer);
  a.state = static_cast<QpState>(record.Below(8));
  a.current_state = static_cast<QpState>(record.Below(8));
  a.alternate_address = a.address;
  a.alternate_port_num = 1;
  a.rate_limit = {record.Below(4) * 1'000'000, record.Below(2) * 8'192};
  // One value that may be out of range.
  const uint8_t value = record.Byte();
  switch (record.Below(16)) {
    case 0:
      a.pkey_index = value;
      break;
    case 1:
      a.port_num = value;
      break;
    case 2:
      a.address.source_gid_index = value;
      break;
    case 3:
      a.address.destination_gid = {};
      break;
    case 4:
      a.path_mtu = static_cast<Mtu>(value % 8);
      break;
    case 5:
      a.destination_qpn.value = value << 20;
      break;
    case 6:
      a.timeout = value;
      break;
    case 7:
      a.retry_count = value;
      break;
    case 8:
      a.rnr_retry = value;
      break;
    case 9:
      a.min_rnr_timer = value;
      break;
    case 10:
      a.max_read_atomic = value;
      break;
    case 11:
      a.max_dest_read_atomic = value;
      break;
    case 12:
      a.migration_state = static_cast<MigrationState>(value % 3);
      break;
    case 13:
      a.address.flow_label = value << 16;
      break;
    case 14:
      a.alternate_port_num = value;
      break;
    default:
      break;
  }
  Modify(slot, a, mask);
}

}  // namespace uroce::transport
