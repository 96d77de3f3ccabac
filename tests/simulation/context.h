#pragma once

#include "tests/simulation/network_monitor.h"
#include "tests/simulation/simulator.h"
#include "tests/simulation/trace.h"
#include "tests/simulation/verdict.h"

namespace uroce::transport::simulation {

// Shared by all parts of one run.
struct Context {
  Simulator& simulator;
  Trace& trace;
  Verdict& verdict;
  NetworkMonitor& monitor;
  const bool uses_prediction;  // EndpointConfig's
  const bool sends_at_once;    // requests go out as they are posted, if they can
};

}  // namespace uroce::transport::simulation
