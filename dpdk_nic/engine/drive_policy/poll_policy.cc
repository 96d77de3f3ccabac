#include "dpdk_nic/engine/drive_policy/poll_policy.h"

#include <algorithm>

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;
using Pause = PollPolicy::Pause;

// Twice the last interval; the shortest one if the last was long ago.
Duration NextInterval(Duration since_the_last, Duration last, Duration shortest, Duration longest) {
  return since_the_last < longest ? std::min(last * 2, longest) : shortest;
}

}  // namespace

Pause PollPolicy::PollRefused(bool has_one_processor) {
  const uint32_t refusals = refusals_ + 1;
  const Pause pause = PollFailed(has_one_processor);
  refusals_ = refusals % drive::kRefusalsBeforeNap;
  return refusals_ == 0 ? Pause::kNap : pause;
}

Pause PollPolicy::Yielded(Time before, Time after) {
  const Duration away = after - before;
  if (away >= drive::kHogRan) {
    hogged_ =
        NextInterval(after - hogged_until_, hogged_, drive::kShortestHogged, drive::kLongestHogged);
    hogged_until_ = after + hogged_;
  }
  if (away < drive::kOtherThreadRan) {
    shared_yields_ = 0;
    return Pause::kNone;
  }
  if (++shared_yields_ < drive::kSharedYieldsBeforeStep) return Pause::kNone;
  shared_yields_ = 0;
  if (after < next_step_aside_) return Pause::kNone;
  stay_ = NextInterval(after - next_step_aside_, stay_, drive::kShortestStay, drive::kLongestStay);
  next_step_aside_ = after + stay_;
  return Pause::kMoment;
}

}  // namespace uroce::nic
