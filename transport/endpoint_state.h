#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "transport/cm/counters.h"
#include "transport/counters.h"
#include "transport/limits.h"
#include "transport/peers/counters.h"
#include "transport/qp_attributes.h"

namespace uroce::transport {

// The current state of a queue pair: the protocol itself runs on these fields.
struct alignas(64) QueuePairRecord {
  Qpn qpn;  // 0: there is none
  QpType type = QpType::kReliableConnection;
  // current_state, capabilities and sq_draining have no meaning here.
  QpAttributes attributes;
  QpCapabilities capabilities;  // granted
  QueuePairCounters counters;
};

// The observable state of an endpoint in one piece of memory, which may be shared with processes
// that read it at any time. Zeroed memory is the state of a new endpoint.
struct EndpointState {
  // Without those of the existing queue pairs, which are in their records: Endpoint::counters() has
  // both.
  Counters counters;
  cm::Counters connection_manager;
  PeerCounters peers;
  // Odd while the counts of a queue pair move from its record to `counters`.
  uint64_t moves;
  std::array<QueuePairRecord, kMaxQps> queue_pairs;  // by QPN - first_qpn
};
static_assert(std::is_standard_layout_v<EndpointState>);
static_assert(std::is_trivially_copyable_v<EndpointState>);

}  // namespace uroce::transport
