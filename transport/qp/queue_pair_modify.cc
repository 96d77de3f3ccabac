#include "transport/completion_queue.h"
#include "transport/limits.h"
#include "transport/qp/path_migration.h"
#include "transport/qp/queue_pair.h"
#include "transport/qp/state_table.h"
#include "transport/qp/timeouts.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;

constexpr uint8_t kOnlyPort = 1;
constexpr uint32_t kMaxFlowLabel = 0xf'ffff;

}  // namespace

Status QueuePair::Modify(const QpAttributes& attributes, uint32_t mask) {
  if (const Status status = CheckModify(attributes, mask); status != Status::kOk) return status;
  // Allocates first: if that throws, nothing has changed.
  if ((mask & M::kMaxDestReadAtomic) != 0) {
    responder_.ReserveReplies(attributes.max_dest_read_atomic);
  }
  Apply(attributes, mask);
  if ((mask & M::kState) != 0) Enter(attributes.state);
  UpdateAfterEvent();
  return Status::kOk;
}

Status QueuePair::CheckModify(const QpAttributes& attributes, uint32_t mask) const {
  return IsTransition(attributes, mask) && AreValid(attributes, mask) ? Status::kOk
                                                                      : Status::kInvalidArgument;
}

bool QueuePair::IsTransition(const QpAttributes& attributes, uint32_t mask) const {
  if ((mask & M::kCurrentState) != 0 && attributes.current_state != state()) return false;
  const QpState next = (mask & M::kState) != 0 ? attributes.state : state();
  const Transition transition = FindTransition(context_.init.type, state(), next);
  const uint32_t given = mask & ~M::kState;
  const bool has_all = (given & transition.required) == transition.required;
  const bool has_only = (given & ~(transition.required | transition.optional)) == 0;
  return transition.allowed && has_all && has_only;
}

bool QueuePair::AreValid(const QpAttributes& a, uint32_t mask) const {
  const auto sets = [mask](uint32_t attribute) { return (mask & attribute) != 0; };
  const size_t pkeys = context_.environment.config.pkeys.size();
  if (sets(M::kPkeyIndex) && a.pkey_index >= pkeys) return false;
  if (sets(M::kPort) && a.port_num != kOnlyPort) return false;
  if (sets(M::kAddressVector) && !IsValid(a.address)) return false;
  if (sets(M::kPathMtu) && (a.path_mtu < Mtu::k256 || a.path_mtu > Mtu::k4096 ||
                            !context_.environment.config.Carries(a.path_mtu))) {
    return false;
  }
  if (sets(M::kDestinationQpn) && a.destination_qpn.value > kMaxQpn) return false;
  if (sets(M::kTimeout) && a.timeout > kMaxTimeoutCode) return false;
  if (sets(M::kRetryCount) && a.retry_count > kMaxRetryCount) return false;
  if (sets(M::kRnrRetry) && a.rnr_retry > kRnrRetryForEver) return false;
  if (sets(M::kMinRnrTimer) && a.min_rnr_timer > kMaxRnrTimerCode) return false;
  if (sets(M::kRateLimit) && a.rate_limit.kbps > kMaxRateKbps) return false;
  if (sets(M::kMaxReadAtomic) && a.max_read_atomic > kMaxReadAtomics) return false;
  if (sets(M::kMaxDestReadAtomic) && a.max_dest_read_atomic > kMaxReadAtomics) return false;
  if (sets(M::kAlternatePath) &&
      (a.alternate_port_num != kOnlyPort || a.alternate_pkey_index >= pkeys ||
       a.alternate_timeout > kMaxTimeoutCode || !IsValid(a.alternate_address))) {
    return false;
  }
  const bool has_alternate = sets(M::kAlternatePath) || context_.attributes.alternate_port_num != 0;
  return !sets(M::kMigrationState) || MayBecome(a.migration_state, has_alternate);
}

// IBA 17.2.8: only a packet of the peer leads to ARMED. A queue pair does not go back from REARM,
// as its peer may be armed already.
bool QueuePair::MayBecome(MigrationState next, bool has_alternate) const {
  const MigrationState now = context_.attributes.migration_state;
  switch (next) {
    case MigrationState::kMigrated:
      return now != MigrationState::kRearm;
    case MigrationState::kRearm:
      return now != MigrationState::kArmed && has_alternate;
    default:
      return false;
  }
}

bool QueuePair::IsValid(const AddressVector& address) const {
  return address.port_num == kOnlyPort && !address.destination_gid.IsZero() &&
         address.flow_label <= kMaxFlowLabel &&
         !context_.environment.config.SourceOf(address).IsZero();
}

void QueuePair::Apply(const QpAttributes& a, uint32_t mask) {
  QpAttributes& own = context_.attributes;
  const auto sets = [mask](uint32_t attribute) { return (mask & attribute) != 0; };
  if (sets(M::kEnableSqdNotify)) own.enable_sqd_notify = a.enable_sqd_notify;
  if (sets(M::kAccessFlags)) own.access = a.access;
  if (sets(M::kPkeyIndex)) own.pkey_index = a.pkey_index;
  if (sets(M::kPort)) own.port_num = a.port_num;
  if (sets(M::kQkey)) own.qkey = a.qkey;
  if (sets(M::kPathMtu)) own.path_mtu = a.path_mtu;
  if (sets(M::kTimeout)) {
    own.timeout = a.timeout;
    requester_.RestartTimer();
  }
  if (sets(M::kRetryCount)) own.retry_count = a.retry_count;
  if (sets(M::kRnrRetry)) own.rnr_retry = a.rnr_retry;
  if (sets(M::kRetryCount | M::kRnrRetry)) requester_.RestoreRetries();
  if (sets(M::kMaxReadAtomic)) own.max_read_atomic = a.max_read_atomic;
  if (sets(M::kMinRnrTimer)) own.min_rnr_timer = a.min_rnr_timer;
  if (sets(M::kMaxDestReadAtomic)) {
    own.max_dest_read_atomic = a.max_dest_read_atomic;
    responder_.ResizeReplies();
  }
  if (sets(M::kDestinationQpn)) own.destination_qpn = a.destination_qpn;
  if (sets(M::kAlternatePath)) {
    own.alternate_address = a.alternate_address;
    own.alternate_pkey_index = a.alternate_pkey_index;
    own.alternate_port_num = a.alternate_port_num;
    own.alternate_timeout = a.alternate_timeout;
    context_.alternate_source_gid = context_.environment.config.SourceOf(a.alternate_address);
  }
  const bool has_new_rate =
      (sets(M::kRateLimit) && own.rate_limit != a.rate_limit) ||
      (sets(M::kAddressVector) && own.address.static_rate != a.address.static_rate);
  if (sets(M::kAddressVector)) {
    own.address = a.address;
    context_.source_gid = context_.environment.config.SourceOf(own.address);
  }
  if (sets(M::kAddressVector | M::kAlternatePath)) SetPaths(context_);
  if (sets(M::kRateLimit)) own.rate_limit = a.rate_limit;
  if (has_new_rate) requester_.FollowRate();
  if (sets(M::kPkeyIndex | M::kRateLimit)) UpdatePrediction(context_);
  if (sets(M::kMigrationState)) Apply(a.migration_state);
  if (sets(M::kRqPsn)) responder_.Start(a.rq_psn);
  if (sets(M::kSqPsn)) requester_.Start(a.sq_psn);
}

void QueuePair::Apply(MigrationState next) {
  if (next == MigrationState::kRearm) return Rearm(context_);
  if (!CanMigrate(context_)) return;
  Migrate(context_);
  requester_.FollowPath();
}

void QueuePair::FollowGids() {
  if (!HaveSourcesChanged(context_)) return;
  SetPaths(context_);
  MarkReady();
}

void QueuePair::Enter(QpState next) {
  if (next != QpState::kSendQueueDrain) context_.attributes.enable_sqd_notify = false;
  switch (next) {
    case QpState::kReset:  // IBA 10.3.1.1
      LeaveTransmit();
      context_.environment.events.Forget(*this);
      context_.attributes = InitialAttributes();
      context_.communication_established = false;
      ForgetPaths(context_);
      context_.completion_lost = false;
      requester_.Reset();
      responder_.Reset();
      PurgeCompletions();
      return;
    case QpState::kError:
      if (state() != QpState::kError) EnterError(VendorError::kFlushedByUser);
      return;
    case QpState::kReadyToSend:
      if (state() == QpState::kSendQueueError) requester_.Recover();
      [[fallthrough]];
    default:
      SetState(next);
  }
}

void QueuePair::SetState(QpState next) {
  context_.attributes.state = next;
  UpdatePrediction(context_);
}

// A program that connects anew polls no completion of the old connection, as on most NICs. Those of
// an XRC target stay: the completion queues of its shared queues serve all targets.
void QueuePair::PurgeCompletions() {
  CompletionQueue* const sends = context_.init.send_cq;
  CompletionQueue* const receives = context_.init.receive_cq;
  if (sends != nullptr) sends->Purge(qpn());
  if (receives != nullptr && receives != sends) receives->Purge(qpn());
}

QpAttributes QueuePair::InitialAttributes() const {
  QpAttributes attributes;
  // A datagram queue pair has no path MTU of its own: the port's limits its messages.
  if (context_.is_datagram()) attributes.path_mtu = context_.environment.config.active_mtu();
  return attributes;
}

}  // namespace uroce::transport
