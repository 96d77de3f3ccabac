#pragma once

#include <cstdint>
#include <vector>

#include "tests/system/mover/round_plan.h"

namespace mover {

// The content of the two arenas of a stream after a plan has been carried out.
class Model {
 public:
  Model(const RoundPlan& plan, uint32_t arena_bytes);

  const std::vector<uint8_t>& local() const { return local_; }
  const std::vector<uint8_t>& remote() const { return remote_; }

 private:
  void Apply(const Operation& operation);
  void ApplyAtomic(const Operation& operation);

  std::vector<uint8_t> local_;
  std::vector<uint8_t> remote_;
};

// Overwrites the pieces of an arena with the pattern of `seed`, as if they were contiguous.
void Scribble(const std::vector<Piece>& pieces, uint64_t seed, uint8_t* arena);

}  // namespace mover
