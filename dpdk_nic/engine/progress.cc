#include "dpdk_nic/engine/progress.h"

#include <sched.h>

#include <optional>
#include <system_error>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/engine/engine.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Milliseconds;
using transport::Time;

constexpr char kThreadName[] = "uroce-engine";

constexpr Duration kTick = Milliseconds(1);
// The first sleep after work is bounded. While it lasts, verbs need not wake the helper for their
// retransmission timers, which are later than that.
constexpr Duration kLinger = Milliseconds(20);

// An application thread that has done as much since the last sleep is driving
// (Engine::application_work): 8 passes, or fewer that had more to do.
constexpr uint64_t kWorkThatDrives = 32;
// Less in a tick, and it stopped. More than a program does that waits for events: each event costs
// it a wake-up of 20 us.
constexpr uint64_t kWorkATickThatDrives = 800;

// The last one: interrupts and the first threads of most programs tend to be on the first.
std::optional<int> LastAllowedProcessor() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CPU_ISSET(cpu, &allowed)) return cpu;
  }
  return std::nullopt;
}

}  // namespace

Progress::Progress(Engine& engine, ProgressMode mode) : engine_(engine) {
  const int error = mode == ProgressMode::kDedicated
                        ? loop_.StartSpinning(kThreadName, LastAllowedProcessor())
                        : loop_.Start(kThreadName);
  if (error != 0) throw std::system_error(error, std::generic_category(), "engine thread");
}

Progress::~Progress() {
  if (!engine_.in_forked_child()) loop_.Stop();
}

bool Progress::RunPass() {
  const bool worked = engine_.RunIfFree().value_or(0) != 0;
  lingering_ |= worked;
  return worked;
}

bool Progress::IsDrivenElsewhere() {
  return !engine_.application_waits() &&
         engine_.application_work() - work_before_ >= kWorkThatDrives;
}

void Progress::StandBy() {
  uint64_t work = engine_.application_work();
  uint64_t work_in_tick;
  engine_.SetStandsBy(true);
  do {
    loop_.Wait(Now() + kTick);
    const uint64_t before = std::exchange(work, engine_.application_work());
    work_in_tick = work - before;
  } while (work_in_tick >= kWorkATickThatDrives && !engine_.answers_awaited() &&
           !engine_.application_waits() && !loop_.stopping());
  engine_.SetStandsBy(false);
  lingering_ = true;
}

SleepPlan Progress::PlanSleep() {
  return engine_.PlanSleep(lingering_ ? Now() + kLinger : transport::kNever);
}

void Progress::EndSleep(const SleepPlan& plan, bool woken) {
  if (plan.kind == SleepPlan::Kind::kSleep) {
    lingering_ = woken;
    engine_.EndSleep();
  }
  work_before_ = engine_.application_work();
}

}  // namespace uroce::nic
