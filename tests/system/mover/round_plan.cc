#include "tests/system/mover/round_plan.h"

#include "tests/system/mover/plan_builder.h"
#include "tests/system/mover/random.h"

namespace mover {

RoundPlan MakePlan(const Workload& workload, const StreamRound& stream) {
  uint64_t seed = Mix(workload.seed);
  seed = Mix(seed ^ stream.queue_pair);
  seed = Mix(seed ^ static_cast<uint64_t>(stream.direction));
  seed = Mix(seed ^ stream.round);
  return PlanBuilder(workload, seed, stream.direction).Build();
}

uint32_t MaxOperations(const Workload& workload) {
  constexpr uint32_t kLastGroup = 4;  // a group of 4 may begin when one operation is missing
  return workload.operations + kLastGroup;
}

}  // namespace mover
