#pragma once

#include <cstdint>
#include <string_view>

#include "dpdk_nic/base/error_or.h"
#include "transport/time.h"

namespace uroce::nic {

// Harm done to frames on purpose, so that recovery can be watched and tested.
struct Impairments {
  // Probabilities, 0 .. 1. Each frame meets at most one of the four.
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;         // lets the following one to four frames pass first
  double corrupt = 0;         // one bit, anywhere behind the Ethernet header
  transport::Duration delay;  // of every frame
  uint64_t seed = 1;          // the same seed and the same frames give the same faults

  bool any() const { return drop + duplicate + reorder + corrupt > 0 || delay.ns > 0; }
  bool operator==(const Impairments&) const = default;
};

// Reads "drop=1%,duplicate=0.5%,reorder=1%,corrupt=0.01%,delay=50us,seed=7". Every part may be left
// out; the empty text means no impairment.
ErrorOr<Impairments> ParseImpairments(std::string_view spec);

}  // namespace uroce::nic
