#pragma once

#include <cstdint>

#include "tests/simulation/random.h"
#include "transport/time.h"

namespace uroce::transport::simulation {

// How a program shares a processor: it runs and waits in turns, each for up to twice these times.
struct ProcessorShare {
  Duration runs{};
  Duration waits{};  // 0: it never waits
};

// The processor of one simulated program.
class Processor {
 public:
  Processor(Random random, const ProcessorShare& share) : random_(random), share_(share) {}

  // When the program runs: `now`, or when its wait ends. Called with a time that never goes back.
  Time RunsAt(Time now) {
    if (share_.waits == Duration{}) return now;
    while (wait_end_ <= now) {
      wait_begin_ = wait_end_ + UpToTwice(share_.runs);
      wait_end_ = wait_begin_ + UpToTwice(share_.waits);
    }
    return now < wait_begin_ ? now : wait_end_;
  }

 private:
  Duration UpToTwice(Duration mean) {
    return {static_cast<int64_t>(random_.Between(1, 2 * static_cast<uint64_t>(mean.ns)))};
  }

  Random random_;
  ProcessorShare share_;
  Time wait_begin_{};
  Time wait_end_{};
};

}  // namespace uroce::transport::simulation
