#include "dpdk_nic/engine/polling_pause.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "dpdk_nic/base/cancellation_guard.h"
#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;

constexpr uint32_t kPollsBeforeYield = 32;

// A yield to no other thread costs about 300 ns.
constexpr Duration kOtherThreadRan = transport::Microseconds(1);
constexpr uint32_t kSharedYieldsBeforeStep = 16;

// How long to stay on a shared processor between two attempts to leave it. An attempt costs some 60
// us, so on a machine without an idle processor the attempts get rare.
constexpr Duration kMinInterval = transport::Milliseconds(5);
constexpr Duration kMaxInterval = transport::Milliseconds(160);

// Threads that pause by this class yield long before that.
constexpr Duration kHogRan = transport::Microseconds(500);
// After such a yield, how long to sleep instead of yielding.
constexpr Duration kMinHogInterval = transport::Milliseconds(10);
constexpr Duration kMaxHogInterval = transport::Milliseconds(160);

// So many polls take a millisecond or more, a pass some microseconds.
constexpr uint32_t kRefusalsBeforeSleep = 4'096;

// With the timer slack of an ordinary thread a nanosecond becomes 50 us. A real-time thread has no
// slack, and would not leave its processor.
constexpr timespec kMoment{0, 1};
constexpr timespec kMomentInRealTime{0, 50'000};

void SleepFor(const timespec& moment) {
  const CancellationGuard guard;
  nanosleep(&moment, nullptr);
}

// Twice the last interval; the shortest one if the last was long ago.
Duration NextInterval(Duration since_the_last, Duration last, Duration min, Duration max) {
  return since_the_last < max ? std::min(last * 2, max) : min;
}

// Counts processors of the machine: a process bound to one, such as an MPI rank, has peers on
// others.
bool HasOneProcessor() {
  static const bool one = sysconf(_SC_NPROCESSORS_ONLN) == 1;
  return one;
}

}  // namespace

// On a shared processor, the next poll that fails yields at once.
void PollingPause::PollWorked() {
  fruitless_polls_ = shared_yields_ != 0 ? kPollsBeforeYield : 0;
  refusals_ = 0;
}

bool PollingPause::PollFailed() {
  refusals_ = 0;
  return Pause();
}

void PollingPause::PollRefused() {
  Pause();
  if (++refusals_ < kRefusalsBeforeSleep) return;
  refusals_ = 0;
  SleepFor(kMomentInRealTime);
}

bool PollingPause::Pause() {
  // With a single processor nothing can have changed while we spun.
  if (++fruitless_polls_ < kPollsBeforeYield && !HasOneProcessor()) return false;
  Yield();
  return true;
}

void PollingPause::Yield() {
  if (HasOneProcessor()) {
    sched_yield();
    return;
  }
  const Time before = Now();
  sched_yield();
  const Time after = Now();
  if (after - before >= kHogRan) {
    hog_interval_ =
        NextInterval(after - hogged_until_, hog_interval_, kMinHogInterval, kMaxHogInterval);
    hogged_until_ = after + hog_interval_;
  }
  if (after - before < kOtherThreadRan) {
    shared_yields_ = 0;
  } else if (++shared_yields_ >= kSharedYieldsBeforeStep) {
    shared_yields_ = 0;
    StepAside(after);
  }
}

void PollingPause::StepAside(Time now) {
  if (now < next_step_aside_) return;
  interval_ = NextInterval(now - next_step_aside_, interval_, kMinInterval, kMaxInterval);
  next_step_aside_ = now + interval_;
  SleepFor(kMoment);
}

}  // namespace uroce::nic
