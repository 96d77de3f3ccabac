#pragma once

#include <cstdint>
#include <set>

#include "tests/simulation/bottleneck.h"
#include "tests/simulation/simulator.h"
#include "transport/time.h"

namespace uroce::transport::simulation {

// A model of a TCP connection with SACK that always has data to send: the competitor of our flows.
// Congestion control is cubic (RFC 9438) without HyStart and pacing; a loss is noticed three
// packets later; a timeout takes at least 200 ms. Each packet is acknowledged at once.
class TcpFlow {
 public:
  static constexpr uint32_t kPacketBytes = 1'514;
  static constexpr uint32_t kPayloadBytes = 1'448;

  TcpFlow(Simulator& simulator, Bottleneck& forth, Bottleneck& back);

  void Start();
  uint64_t payload_bytes() const { return delivered_ * kPayloadBytes; }

 private:
  void Transmit();
  void OnAcknowledged(uint64_t packet, Time sent);
  void OnLoss(uint64_t newest_lost);
  void Grow();
  void ArmTimer();

  Simulator& simulator_;
  Bottleneck& forth_;
  Bottleneck& back_;
  std::set<uint64_t> in_flight_;  // a lost packet is sent again under a new number
  uint64_t next_ = 0;
  uint64_t recovery_end_ = 0;  // losses of packets before this belong to one event
  uint64_t delivered_ = 0;
  double window_ = 10;
  double threshold_ = 1e9;     // slow start below
  double window_at_loss_ = 0;  // cubic's W_max
  double reno_window_ = 0;
  Time epoch_;
  Duration round_trip_ = Milliseconds(100);
  uint64_t timer_ = 0;  // counts the timers that were started; only the last one counts
};

}  // namespace uroce::transport::simulation
