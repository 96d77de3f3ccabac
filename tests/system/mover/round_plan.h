#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/system/mover/operation.h"

namespace mover {

// Each direction of a queue pair is a stream: its initiator posts operations on its target.
enum class Direction : uint8_t { kClientToServer, kServerToClient };

// The parameters of a run, chosen by the client for both ends.
struct Workload {
  uint64_t seed = 1;
  uint32_t queue_pairs = 4;
  uint32_t rounds = 4;
  uint32_t operations = 64;  // about as many in each round and stream
  uint32_t max_message_bytes = 3 << 20;
  uint32_t arena_bytes = 8 << 20;
  bool receives_in_advance = false;  // no RNR NAK, ever
  // By direction: no fences and no windows, which not every requester can send again.
  std::array<bool, 2> is_plain{};
};

struct StreamRound {
  uint32_t queue_pair;
  Direction direction;
  uint32_t round;
};

// A part of the target's arena that is opened through a type 2 memory window.
struct WindowRange {
  uint32_t offset;
  uint32_t length;
  bool is_invalidated_by_peer;  // else the target invalidates it at the end of the round
};

// One round of one stream. Derived from the seed alone, so that each end knows the operations of
// the other and the final content of both arenas.
struct RoundPlan {
  uint64_t local_seed = 0;   // pattern of the initiator's arena at the start
  uint64_t remote_seed = 0;  // pattern of the target's arena at the start
  std::vector<WindowRange> windows;
  std::vector<Operation> operations;
  // The number of receive requests posted at any time: small numbers provoke RNR NAKs.
  uint32_t receives_posted = 0;
};

RoundPlan MakePlan(const Workload& workload, const StreamRound& stream);

// An upper bound of the operations of a plan, for the depth of queues.
uint32_t MaxOperations(const Workload& workload);

}  // namespace mover
