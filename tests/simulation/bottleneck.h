#pragma once

#include <cstdint>
#include <functional>

#include "tests/simulation/random.h"
#include "tests/simulation/simulator.h"
#include "tests/simulation/wire.h"
#include "transport/time.h"

namespace uroce::transport::simulation {

// One direction of a network path.
struct PathOptions {
  uint64_t kbps = 1'000'000;         // of the bottleneck
  uint32_t queue_bytes = 256 << 10;  // before the bottleneck; what does not fit is lost (drop-tail)
  Duration one_way = Microseconds(500);
  Duration jitter{};      // added at random; keeps the order
  uint32_t loss_ppm = 0;  // lost at random, before the queue
  uint32_t reorder_ppm = 0;
  Duration reorder_delay{};  // the extra delay of the packets that are reordered
  uint32_t ecn_bytes = 0;    // frames that find so much in the queue are marked; 0: none are
  Time outage_begin = kNever;
  Time outage_end = kNever;
};

// A bottleneck that several senders share: a drop-tail queue in bytes before a line, then a delay.
class Bottleneck {
 public:
  using Deliver = std::function<void(Frame)>;

  Bottleneck(Simulator& simulator, Random random, const PathOptions& options);

  // `deliver` gets the frame when it has passed, if it does.
  void Send(Frame frame, Deliver deliver);

  uint64_t bytes_offered() const { return bytes_offered_; }

 private:
  Simulator& simulator_;
  Random random_;
  const PathOptions options_;
  Time line_free_at_;  // when all that is queued has left
  Time last_arrival_;  // of a frame that was not reordered
  uint64_t bytes_offered_ = 0;
};

}  // namespace uroce::transport::simulation
