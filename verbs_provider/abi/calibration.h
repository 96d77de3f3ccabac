#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "verbs_provider/abi/private_abi.h"

namespace uroce::verbs::abi {

inline constexpr int kUnknownSlot = -1;

// Positions, in the installed libibverbs, of everything that its releases have moved.
struct Layout {
  // Index of each op in the library's op table, by Op; kUnknownSlot if it has none (or it could not
  // be located: such an op stays unset and libibverbs answers EOPNOTSUPP for it).
  std::array<int, kOpCount> slot;
  int slot_count = 0;       // length of the library's op table
  size_t qp_ex_offset = 0;  // of the mask that follows ibv_qp_ex in struct verbs_qp, in bytes
  int release = 0;          // oldest known rdma-core release with this table; 0: none

  Layout() { slot.fill(kUnknownSlot); }
  int SlotOf(Op op) const { return slot[static_cast<size_t>(op)]; }
};

// Compares what was observed (`layout.slot`, `slot_count`, `qp_ex_offset`) with the table of known
// releases. When the table has a release of this length, its slots fill those that could not be
// observed and `release` is set. Returns an empty string, or a sentence that names the conflict: an
// observed op is not where that release has it, an op that no provider can do without was not found
// at all, or two ops were found at one slot.
[[nodiscard]] std::string CrossCheck(Layout& layout);

}  // namespace uroce::verbs::abi
