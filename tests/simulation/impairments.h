#pragma once

#include <cstdint>

#include "transport/time.h"

namespace uroce::transport::simulation {

// The damage that one direction of a wire does to frames. Chances are per million frames.
struct Impairments {
  Duration latency = Microseconds(2);
  Duration jitter;            // added to the latency; keeps the order
  uint64_t bytes_per_us = 0;  // line rate; 0 = infinite
  uint32_t queue_frames = 0;  // frames the switch holds before it drops; 0 = any number

  uint32_t loss_ppm = 0;
  uint32_t burst_ppm = 0;     // chance that a burst of losses begins
  uint32_t burst_frames = 0;  // longest burst
  uint32_t duplicate_ppm = 0;
  uint32_t reorder_ppm = 0;  // chance that others overtake the frame
  Duration held_back;        // at most this long (duplicates too)
  uint32_t corrupt_ppm = 0;  // one to three bits flip: the ICRC tells
  uint32_t reseal_ppm = 0;   // bits flip and the ICRC is made right again
};

}  // namespace uroce::transport::simulation
