#include "transport/qp/state_table.h"

namespace uroce::transport {
namespace {

using M = QpAttributeMask;
using S = QpState;

// One row: the attributes for RC, UC, UD, the two halves of XRC, and raw packets. The column of
// raw packets is that of Linux (qp_state_table of core/verbs.c): IBA has none.
//
//            +-------+      +------+      +-----+      +-----+      +-----+
//   create ->| RESET |----->| INIT |----->| RTR |----->| RTS |<---->| SQD |
//            +-------+      +------+      +-----+      +-----+      +-----+
//                ^             (to ERR and to RESET from everywhere)
//                |                         +-----+  send error (UC, UD, raw)
//                +-------------------------| ERR |     RTS -> SQE -> RTS
//                                          +-----+
struct Row {
  QpState from;
  QpState to;
  struct Attributes {
    uint32_t required;
    uint32_t optional;
  } rc, uc, ud, xrc_send, xrc_receive, raw;
};

constexpr uint32_t kStart = M::kPkeyIndex | M::kPort | M::kAccessFlags;
constexpr uint32_t kPath = M::kAlternatePath | M::kAccessFlags;
constexpr uint32_t kPeer = M::kAddressVector | M::kPathMtu | M::kDestinationQpn | M::kRqPsn;
constexpr uint32_t kResponder = M::kMaxDestReadAtomic | M::kMinRnrTimer;
constexpr uint32_t kRetries = M::kRetryCount | M::kRnrRetry | M::kMaxReadAtomic;
constexpr uint32_t kLive = M::kCurrentState | kPath | M::kMigrationState;
constexpr uint32_t kDrained =
    M::kPort | M::kAddressVector | M::kTimeout | kPath | M::kPkeyIndex | M::kMigrationState;

// clang-format off
constexpr Row kRows[] = {
    {S::kReset, S::kInit,
     {kStart, 0},
     {kStart, 0},
     {M::kPkeyIndex | M::kPort | M::kQkey, 0},
     {kStart, 0},
     {kStart, 0},
     {M::kPort, 0}},
    {S::kInit, S::kInit,
     {0, kStart},
     {0, kStart},
     {0, M::kPkeyIndex | M::kPort | M::kQkey},
     {0, kStart},
     {0, kStart},
     {0, 0}},
    {S::kInit, S::kReadyToReceive,
     {kPeer | kResponder, kPath | M::kPkeyIndex},
     {kPeer, kPath | M::kPkeyIndex},
     {0, M::kPkeyIndex | M::kQkey},
     {kPeer, kPath | M::kPkeyIndex},
     {kPeer | kResponder, kPath | M::kPkeyIndex},
     {0, 0}},
    {S::kReadyToReceive, S::kReadyToSend,
     {M::kSqPsn | M::kTimeout | kRetries, kLive | M::kMinRnrTimer | M::kRateLimit},
     {M::kSqPsn, kLive | M::kRateLimit},
     {M::kSqPsn, M::kCurrentState | M::kQkey | M::kRateLimit},
     {M::kSqPsn | M::kTimeout | kRetries, kLive | M::kRateLimit},
     {M::kSqPsn | M::kTimeout, kLive | M::kMinRnrTimer},
     {0, M::kRateLimit}},
    {S::kReadyToSend, S::kReadyToSend,
     {0, kLive | M::kMinRnrTimer | M::kRateLimit},
     {0, kLive | M::kRateLimit},
     {0, M::kCurrentState | M::kQkey | M::kRateLimit},
     {0, kLive | M::kRateLimit},
     {0, kLive | M::kMinRnrTimer},
     {0, M::kRateLimit}},
    {S::kReadyToSend, S::kSendQueueDrain,
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify},
     {0, M::kEnableSqdNotify},
     {0, 0}},
    {S::kSendQueueDrain, S::kReadyToSend,
     {0, kLive | M::kMinRnrTimer},
     {0, kLive},
     {0, M::kCurrentState | M::kQkey},
     {0, kLive},
     {0, kLive | M::kMinRnrTimer},
     {0, 0}},
    {S::kSendQueueDrain, S::kSendQueueDrain,
     {0, kDrained | kRetries | kResponder},
     {0, M::kAddressVector | kPath | M::kPkeyIndex | M::kMigrationState},
     {0, M::kPkeyIndex | M::kQkey},
     {0, kDrained | kRetries},
     {0, kDrained | kResponder},
     {0, 0}},
};
// clang-format on

// SQE is a state of UC and UD (IBA 10.3.1.6), and of raw packets.
constexpr Row kSendErrorRecovery = {S::kSendQueueError,
                                    S::kReadyToSend,
                                    {},
                                    {0, M::kCurrentState | M::kAccessFlags},
                                    {0, M::kCurrentState | M::kQkey},
                                    {},
                                    {},
                                    {}};

const Row::Attributes& AttributesOf(const Row& row, QpType type) {
  switch (type) {
    case QpType::kUnreliableConnection:
      return row.uc;
    case QpType::kUnreliableDatagram:
      return row.ud;
    case QpType::kXrcSend:
      return row.xrc_send;
    case QpType::kXrcReceive:
      return row.xrc_receive;
    case QpType::kRawPacket:
      return row.raw;
    default:
      return row.rc;
  }
}

Transition Select(const Row& row, QpType type) {
  const Row::Attributes& attributes = AttributesOf(row, type);
  return {true, attributes.required, attributes.optional};
}

constexpr bool HasSendQueueError(QpType type) {
  return type == QpType::kUnreliableConnection || type == QpType::kUnreliableDatagram ||
         type == QpType::kRawPacket;
}

}  // namespace

Transition FindTransition(QpType type, QpState from, QpState to) {
  if (to == S::kReset || to == S::kError) return {true, 0, 0};
  for (const Row& row : kRows) {
    if (row.from == from && row.to == to) return Select(row, type);
  }
  if (from == kSendErrorRecovery.from && to == kSendErrorRecovery.to && HasSendQueueError(type)) {
    return Select(kSendErrorRecovery, type);
  }
  return {};
}

}  // namespace uroce::transport
