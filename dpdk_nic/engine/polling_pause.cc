#include "dpdk_nic/engine/polling_pause.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using Pause = PollPolicy::Pause;

// With the timer slack of an ordinary thread a nanosecond becomes 50 us. A real-time thread has no
// slack, and would not leave its processor.
constexpr timespec kMoment{0, 1};
constexpr timespec kMomentInRealTime{0, 50'000};

void SleepFor(const timespec& moment) {
  const CancellationGuard guard;
  nanosleep(&moment, nullptr);
}

bool HasOneProcessor() {
  static const bool one = sysconf(_SC_NPROCESSORS_ONLN) == 1;
  return one;
}

}  // namespace

bool PollingPause::PollFailed() {
  const Pause pause = policy_.PollFailed(HasOneProcessor());
  Carry(pause);
  return pause != Pause::kNone;
}

void PollingPause::PollRefused() { Carry(policy_.PollRefused(HasOneProcessor())); }

void PollingPause::Carry(Pause pause) {
  if (pause == Pause::kYield) {
    const transport::Time before = Now();
    sched_yield();
    pause = policy_.Yielded(before, Now());
  }
  if (pause == Pause::kMoment) SleepFor(kMoment);
  if (pause == Pause::kNap) SleepFor(kMomentInRealTime);
}

}  // namespace uroce::nic
