#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "tests/simulation/sabotage.h"
#include "tests/simulation/scenario.h"

namespace uroce::transport::simulation {

struct RunOptions {
  std::FILE* trace = nullptr;  // gets a line for every frame and completion
  Sabotage sabotage = Sabotage::kNone;
  Tampering tampering = Tampering::kNone;
  bool uses_prediction = true;  // EndpointConfig's
  bool sends_at_once = false;   // requests go out as they are posted, if they can
  bool uses_xrc = false;        // MakeXrcScenario instead of MakeScenario
};

struct RunResult {
  bool ok = true;
  std::string failure;  // what failed, the scenario, and the command that shows it again
  uint64_t trace_hash = 0;
  uint64_t requests = 0;  // posted
  uint64_t frames = 0;    // delivered
  uint64_t impaired = 0;  // frames that the wire impaired
  Time end;
};

// One simulation from beginning to end.
RunResult RunSeed(uint64_t seed, const RunOptions& options = {});

}  // namespace uroce::transport::simulation
