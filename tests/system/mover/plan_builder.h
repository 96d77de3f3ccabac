#pragma once

#include <array>
#include <cstdint>

#include "tests/system/mover/arena_space.h"
#include "tests/system/mover/operation.h"
#include "tests/system/mover/random.h"
#include "tests/system/mover/round_plan.h"

namespace mover {

// Invents the operations of one round of one stream. Each byte of either arena is used by one group
// of operations only, and within a group by operations that the transport orders: a fence separates
// a READ from a later operation on the same bytes (IBA 10.8.3.3), so that the outcome is certain
// even if the READ is carried out twice.
class PlanBuilder {
 public:
  PlanBuilder(const Workload& workload, uint64_t stream_seed, Direction direction);

  RoundPlan Build();

 private:
  static constexpr size_t kAtomicCells = 4;
  static constexpr uint32_t kMaxGroupMessages = 3;

  struct Cell {
    uint32_t offset;
    uint64_t value;  // after the operations planned so far
  };

  void PlaceAtomicCells();
  void PlaceWindows();
  void AddGroup();
  void AddSend();
  void AddWrite();
  void AddRead();
  void AddAtomic();
  void AddRewrite();
  void AddReadThenWrite();
  void AddWindowUse();
  void AddOwnWindow();
  void DecideSignals();

  uint32_t DrawLength(uint32_t limit);
  // A length for each of `messages` messages, with which all of them fit.
  uint32_t DrawMessageLength(uint32_t messages);
  bool HasSpaceForAGroup() const;
  Operation NewOperation(Kind kind, uint32_t length);
  void AddReceive(Operation* operation);
  void MaybeInline(Operation* operation);
  // A WRITE from new local bytes to `remote_offset`, or a READ to new local bytes.
  Operation RemoteOperation(Kind kind, uint32_t length, uint32_t remote_offset);
  void Add(Operation operation);

  const Workload& workload_;
  const uint64_t stream_seed_;
  const bool is_plain_;
  Random random_;
  ArenaSpace local_space_;
  ArenaSpace remote_space_;
  std::array<Cell, kAtomicCells> cells_;
  size_t next_window_ = 0;
  RoundPlan plan_;
};

}  // namespace mover
