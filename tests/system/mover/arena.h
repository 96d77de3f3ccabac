#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tests/system/mover/operation.h"
#include "tests/system/verbs/handles.h"

namespace mover {

// The memory of one end of a stream, registered twice, with a guard page before and behind it.
class Arena {
 public:
  // Throws std::runtime_error.
  Arena(ibv_pd* domain, uint32_t bytes);

  std::span<uint8_t> bytes() const { return {memory_.get(), memory_.get_deleter().bytes}; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_.get()); }
  ibv_mr* region(uint8_t index) const { return regions_[index].get(); }
  ibv_sge Sge(const Piece& piece) const;

 private:
  struct Unmapper {
    size_t bytes;  // without the guard pages
    void operator()(uint8_t* memory) const;
  };

  std::unique_ptr<uint8_t, Unmapper> memory_;
  std::array<system_test::RegionHandle, 2> regions_;
};

}  // namespace mover
