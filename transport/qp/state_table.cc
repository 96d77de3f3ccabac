#include "transport/qp/state_table.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;
using S = QpState;

// One row: the attributes for RC, UC and UD.
//
//            +-------+      +------+      +-----+      +-----+      +-----+
//   create ->| RESET |----->| INIT |----->| RTR |----->| RTS |<---->| SQD |
//            +-------+      +------+      +-----+      +-----+      +-----+
//                ^             (to ERR and to RESET from everywhere)
//                |                         +-----+  send error (UC, UD)
//                +-------------------------| ERR |     RTS -> SQE -> RTS
//                                          +-----+
struct Row {
  QpState from;
  QpState to;
  struct Attributes {
    uint32_t required;
    uint32_t optional;
  } rc, uc, ud;
};

constexpr uint32_t kPath = M::kAlternatePath | M::kAccessFlags;

// clang-format off
constexpr Row kRows[] = {
    {S::kReset, S::kInit,
     {M::kPkeyIndex | M::kPort | M::kAccessFlags, 0},
     {M::kPkeyIndex | M::kPort | M::kAccessFlags, 0},
     {M::kPkeyIndex | M::kPort | M::kQkey, 0}},
    {S::kInit, S::kInit,
     {0, M::kPkeyIndex | M::kPort | M::kAccessFlags},
     {0, M::kPkeyIndex | M::kPort | M::kAccessFlags},
     {0, M::kPkeyIndex | M::kPort | M::kQkey}},
    {S::kInit, S::kReadyToReceive,
     {M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn | M::kMaxDestReadAtomic |
          M::kMinRnrTimer,
      kPath | M::kPkeyIndex},
     {M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn, kPath | M::kPkeyIndex},
     {0, M::kPkeyIndex | M::kQkey}},
    {S::kReadyToReceive, S::kReadyToSend,
     {M::kSqPsn | M::kTimeout | M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic,
      M::kCurrentState | kPath | M::kMinRnrTimer | M::kMigrationState},
     {M::kSqPsn, M::kCurrentState | kPath | M::kMigrationState},
     {M::kSqPsn, M::kCurrentState | M::kQkey}},
    {S::kReadyToSend, S::kReadyToSend,
     {0, M::kCurrentState | kPath | M::kMigrationState | M::kMinRnrTimer},
     {0, M::kCurrentState | kPath | M::kMigrationState},
     {0, M::kCurrentState | M::kQkey}},
    {S::kReadyToSend, S::kSendQueueDrain,
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify}},
    {S::kSendQueueDrain, S::kReadyToSend,
     {0, M::kCurrentState | kPath | M::kMinRnrTimer | M::kMigrationState},
     {0, M::kCurrentState | kPath | M::kMigrationState},
     {0, M::kCurrentState | M::kQkey}},
    {S::kSendQueueDrain, S::kSendQueueDrain,
     {0, M::kPort | M::kAddressVector | M::kTimeout | M::kRetryCount | M::kRnrRetry |
             M::kMaxReadAtomic | M::kMaxDestReadAtomic | kPath | M::kPkeyIndex | M::kMinRnrTimer |
             M::kMigrationState},
     {0, M::kAddressVector | kPath | M::kPkeyIndex | M::kMigrationState},
     {0, M::kPkeyIndex | M::kQkey}},
};
// clang-format on

// SQE is a state of UC and UD only (IBA 10.3.1.6).
constexpr Row kSendErrorRecovery = {S::kSendQueueError,
                                    S::kReadyToSend,
                                    {0, 0},
                                    {0, M::kCurrentState | M::kAccessFlags},
                                    {0, M::kCurrentState | M::kQkey}};

Transition Select(const Row& row, QpType type) {
  const Row::Attributes& attributes = type == QpType::kReliableConnection     ? row.rc
                                      : type == QpType::kUnreliableConnection ? row.uc
                                                                              : row.ud;
  return {true, attributes.required, attributes.optional};
}

}  // namespace

Transition FindTransition(QpType type, QpState from, QpState to) {
  if (to == S::kReset || to == S::kError) return {true, 0, 0};
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) return Select(row, type);
  }
  if (from == kSendErrorRecovery.from && to == kSendErrorRecovery.to &&
      type != QpType::kReliableConnection) {
    return Select(kSendErrorRecovery, type);
  }
  return {};
}

}  // namespace uroce::transport
