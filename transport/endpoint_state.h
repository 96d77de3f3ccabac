#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "transport/counters.h"
#include "transport/limits.h"
#include "transport/qp_attributes.h"

namespace uroce::transport {

// A queue pair as it is at this moment: the protocol itself runs on these fields.
struct alignas(64) QueuePairRecord {
  Qpn qpn;  // 0: there is none
  QpType type = QpType::kReliableConnection;
  // current_state, capabilities and sq_draining have no meaning here.
  QpAttributes attributes;
  QpCapabilities capabilities;  // granted
};

// Everything about an endpoint that an observer may want to see, in one piece of memory: it may be
// shared with processes that read it at any time. Zeroed memory is the state of an endpoint
// in which nothing has happened.
struct EndpointState {
  Counters counters;
  std::array<QueuePairRecord, kMaxQps> queue_pairs;  // by QPN - first_qpn
};
static_assert(std::is_standard_layout_v<EndpointState>);
static_assert(std::is_trivially_copyable_v<EndpointState>);

}  // namespace uroce::transport
