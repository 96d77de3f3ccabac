#pragma once

#include <cstdint>

#include "transport/qp_attributes.h"

namespace uroce::transport {

// The attributes that a modify call must and may set on one transition: bits of QpAttributeMask.
struct Transition {
  bool allowed = false;
  uint32_t required = 0;
  uint32_t optional = 0;
};

// The row of the state tables (IBA 11.2.5.2) for a queue pair of `type` that goes from `from` to
// `to`, which may be the same state.
Transition FindTransition(QpType type, QpState from, QpState to);

// The operations that a state allows.
constexpr bool AcceptsSendPosts(QpState state) {  // IBA C10-96
  return state == QpState::kReadyToSend || state == QpState::kSendQueueDrain ||
         state == QpState::kSendQueueError || state == QpState::kError;
}
// IBA C10-97.2.1.
constexpr bool AcceptsReceivePosts(QpState state) { return state != QpState::kReset; }
constexpr bool ProcessesRequests(QpState state) {  // in SQE too: IBA C10-38
  return state == QpState::kReadyToReceive || state == QpState::kReadyToSend ||
         state == QpState::kSendQueueDrain || state == QpState::kSendQueueError;
}
constexpr bool ProcessesResponses(QpState state) {
  return state == QpState::kReadyToSend || state == QpState::kSendQueueDrain;
}

}  // namespace uroce::transport
