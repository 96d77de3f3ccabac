#include "dpdk_nic/engine/driving_watch.h"

#include <algorithm>

namespace uroce::nic {

using transport::Duration;
using transport::Time;

void DrivingWatch::Begin(Time now, uint64_t work) {
  began_at_ = looked_at_ = now;
  work_ = work;
  tick_ = kFirstTick;
}

bool DrivingWatch::Look(Time now, uint64_t work) {
  const Duration elapsed = now - looked_at_;
  if (elapsed < kFirstTick) return true;  // something else woke the helper
  constexpr auto kMillisecondNs = static_cast<uint64_t>(transport::Milliseconds(1).ns);
  const uint64_t least = kWorkAMillisecond * static_cast<uint64_t>(elapsed.ns) / kMillisecondNs;
  const bool drives = work - work_ >= least;
  looked_at_ = now;
  work_ = work;
  tick_ = std::min(tick_ * 2, kLongestTick);
  if (drives) return true;
  const bool is_proven = now - began_at_ >= kProof;
  doubt_ = is_proven ? Duration{0} : std::clamp(doubt_ * 2, kShortestDoubt, kLongestDoubt);
  not_before_ = now + doubt_;
  return false;
}

}  // namespace uroce::nic
