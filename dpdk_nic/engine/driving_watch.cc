#include "dpdk_nic/engine/driving_watch.h"

#include <algorithm>

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;

// More than the work of a program that waits for events: each event costs it a wakeup of 20 us.
constexpr uint64_t kWorkAMillisecond = 800;

uint64_t LeastWorkIn(Duration span) {
  return kWorkAMillisecond * static_cast<uint64_t>(span.ns) /
         static_cast<uint64_t>(transport::Milliseconds(1).ns);
}

}  // namespace

void DrivingWatch::Begin(Time now, uint64_t work) {
  began_at_ = looked_at_ = now;
  work_ = work;
  was_in_engine_ = false;
  tick_ = kFirstTick;
}

bool DrivingWatch::Look(Time now, uint64_t work, bool in_engine) {
  const Duration elapsed = now - looked_at_;
  if (elapsed < kFirstTick) return true;  // something else woke the helper
  const uint64_t done = work - work_;
  const bool has_stopped = done == 0;
  const bool works_enough = tick_ < kLongestTick ? !has_stopped : done >= LeastWorkIn(elapsed);
  // One look may fall into a short verb.
  const bool is_long_in_engine = in_engine && (has_stopped || was_in_engine_);
  looked_at_ = now;
  work_ = work;
  was_in_engine_ = in_engine;
  tick_ = std::min(tick_ * 2, kLongestTick);
  if (works_enough || is_long_in_engine) return true;
  const bool is_proven = now - began_at_ >= kProof;
  if (is_proven) {
    doubt_ = {};
  } else if (has_stopped) {
    doubt_ = std::clamp(doubt_ * 2, kShortestDoubt, kLongestDoubt);
    not_before_ = now + doubt_;
  }
  return false;
}

}  // namespace uroce::nic
