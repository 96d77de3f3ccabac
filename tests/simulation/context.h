#pragma once

#include "tests/simulation/simulator.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/verdict.h"
#include "tests/simulation/wire_monitor.h"

namespace uroce::simulation {

// What all parts of one run share.
struct Context {
  Simulator& simulator;
  Trace& trace;
  Verdict& verdict;
  WireMonitor& monitor;
};

}  // namespace uroce::simulation
