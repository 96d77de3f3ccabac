#include "tests/simulation/simulator.h"

#include <algorithm>
#include <utility>

namespace uroce::transport::simulation {

void Simulator::At(Time time, Action action) {
  heap_.push_back({std::max(time, now_), next_sequence_++, std::move(action)});
  std::push_heap(heap_.begin(), heap_.end(), Later);
}

bool Simulator::RunOne() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.time;
  ++events_run_;
  event.action();
  return true;
}

}  // namespace uroce::transport::simulation
