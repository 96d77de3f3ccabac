#include "dpdk_nic/engine/progress.h"

#include <sched.h>

#include <optional>
#include <system_error>

#include "dpdk_nic/engine/engine.h"

namespace uroce::nic {
namespace {

constexpr char kThreadName[] = "uroce-engine";

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

bool Progress::RunPass() { return engine_.RunIfFree(Driver::kProgressThread).value_or(0) != 0; }

ProgressPolicy::Company Progress::company() {
  const DrivingNotes& notes = engine_.notes_;
  return {.application_work = notes.application_work(),
          .application_waits = notes.application_waits(),
          .is_in_engine = engine_.lock_.is_held(),
          .awaits_answer = engine_.answers_awaited()};
}

void Progress::SetStandsBy(bool does) { engine_.notes_.SetWatched(does); }

SleepPlan Progress::PlanSleep(transport::Time latest) { return engine_.PlanSleep(latest); }

void Progress::EndSleep(const SleepPlan& plan) {
  if (plan.kind == SleepPlan::Kind::kSleep) engine_.EndSleep();
}

}  // namespace uroce::nic
