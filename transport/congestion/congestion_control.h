#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "transport/congestion/congestion.h"
#include "transport/congestion/delivery_meter.h"
#include "transport/time.h"

// Congestion control of one connection on a network: how many packets may be in flight, and how
// fast they leave. All amounts are packets as PSNs count them, responses to READs included.
namespace uroce::transport {

// Packets were acknowledged.
struct Acknowledgement {
  Time now;
  uint32_t packets = 0;    // for the first time
  uint32_t in_flight = 0;  // not acknowledged yet
  std::optional<DeliverySample> sample;
};

// The limits that a control sets.
struct CongestionLimits {
  uint32_t window = 0;      // packets that may be in flight: 1 .. kMaxCongestionWindow
  int64_t ns_a_packet = 0;  // pacing; 0: none
};

// A congestion control: events of one connection go in, limits come out. It has no clock and
// allocates nothing.
class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  // The connection begins, or it has a new path.
  virtual void Restart() = 0;
  virtual void OnAcknowledged(const Acknowledgement& acknowledgement) = 0;
  // So many more packets are known to be lost, of `in_flight` that were not known to have arrived.
  virtual void OnLoss(Time now, uint32_t packets, uint32_t in_flight) = 0;
  virtual CongestionLimits limits() const = 0;
};

// nullptr for kNone. `seed` spreads what connections do at the same time.
std::unique_ptr<CongestionControl> MakeCongestionControl(Congestion kind, uint32_t seed);

}  // namespace uroce::transport
