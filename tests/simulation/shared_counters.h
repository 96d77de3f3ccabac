#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/verdict.h"

namespace uroce::transport::simulation {

// Words of a host that all its peers add to at the same time. All results must fit one order of the
// additions to a word: each sees the sum of those before it, and none runs twice.
class SharedCounters {
 public:
  static constexpr size_t kWords = 4;

  SharedCounters(MemoryTable& table, PdId pd, Random random);

  Arena& arena() { return arena_; }

  // An addition of `delta`, not 0, returned `original`.
  void OnAdded(size_t word, uint64_t original, uint64_t delta);
  // An addition that may or may not have run: its connection broke.
  void OnUncertain(size_t word, uint64_t delta);

  void Check(Verdict& verdict);

 private:
  struct Addition {
    uint64_t original;
    uint64_t delta;
  };
  uint64_t Value(size_t word);

  Arena arena_;
  std::array<uint64_t, kWords> initial_;
  std::array<std::vector<Addition>, kWords> additions_;
  std::array<std::vector<uint64_t>, kWords> uncertain_;
};

}  // namespace uroce::transport::simulation
