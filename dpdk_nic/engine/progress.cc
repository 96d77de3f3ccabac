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

// Bounds the first sleep after work. During it verbs need not wake the helper for their
// retransmission timers, which are later than that.
constexpr Duration kLinger = Milliseconds(20);

// An application thread that has done this much since the last sleep is driving
// (DrivingNotes::application_work): 8 passes, or fewer that had more to do.
constexpr uint64_t kWorkThatDrives = 32;

// Counts from the last processor down: interrupts and the first threads of most programs tend to be
// on the first ones.
std::optional<int> ProcessorFor(uint32_t engine) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return std::nullopt;
  uint32_t others = engine % static_cast<uint32_t>(CPU_COUNT(&allowed));
  for (int cpu = CPU_SETSIZE - 1; cpu >= 0; --cpu) {
    if (CPU_ISSET(cpu, &allowed) && others-- == 0) return cpu;
  }
  return std::nullopt;
}

}  // namespace

Progress::Progress(Engine& engine, const EngineOptions& options) : engine_(engine) {
  const int error = options.mode == ProgressMode::kDedicated
                        ? loop_.StartSpinning(kThreadName, ProcessorFor(options.number))
                        : loop_.Start(kThreadName);
  if (error != 0) throw std::system_error(error, std::generic_category(), "engine thread");
}

Progress::~Progress() {
  if (!engine_.in_forked_child()) loop_.Stop();
}

bool Progress::RunPass() {
  const bool worked = engine_.RunIfFree(Engine::Driver::kHelper).value_or(0) != 0;
  lingering_ |= worked;
  return worked;
}

bool Progress::IsDrivenElsewhere() {
  return !engine_.notes_.application_waits() &&
         engine_.notes_.application_work() - work_before_ >= kWorkThatDrives &&
         watch_.MayBegin(Now());
}

bool Progress::HasCompany() {
  const uint64_t before = std::exchange(work_seen_, engine_.notes_.application_work());
  return work_seen_ != before;
}

void Progress::StandBy() {
  watch_.Begin(Now(), engine_.notes_.application_work());
  engine_.notes_.SetHelperStandsBy(true);
  do {
    loop_.Wait(watch_.next_look());
  } while (watch_.Look(Now(), engine_.notes_.application_work(), engine_.lock_.is_held()) &&
           !engine_.answers_awaited() && !engine_.notes_.application_waits() && !loop_.stopping());
  engine_.notes_.SetHelperStandsBy(false);
  work_before_ = engine_.notes_.application_work();
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
  // Not after a wakeup: frames that the application takes may have caused it.
  if (!woken) work_before_ = engine_.notes_.application_work();
}

}  // namespace uroce::nic
