#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/simulation/arena.h"
#include "tests/simulation/layout.h"
#include "tests/simulation/random.h"
#include "tests/simulation/verdict.h"

namespace uroce::transport::simulation {

// Tells the completions of receives from those of sends on a queue that both share: the opcode of
// a completion in error says nothing.
inline constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

// A receive request and the memory it describes.
struct PostedReceive {
  uint64_t wr_id = 0;
  uint64_t offset = 0;  // in the arena
  Layout layout;
  std::vector<uint8_t> before;  // what the area held
};

// The receive requests that were posted to one queue, a queue pair's own or a shared one, and have
// not completed.
class ReceivePool {
 public:
  // Requests have room for `bytes` in at most `max_sges` pieces; there is memory for `slots` of
  // them. `first_wr_id` and the numbers after it are theirs.
  struct Config {
    uint32_t bytes = 0;
    uint32_t max_sges = 0;
    uint32_t slots = 0;
    uint64_t first_wr_id = 0;
  };
  ReceivePool(Verdict& verdict, MemoryTable& table, PdId pd, const Config& config, Random random);

  // A request to be posted; nullptr if there is no memory for one more. It counts as posted until
  // Withdraw().
  const PostedReceive* Draw();
  // The newest was not posted after all.
  void Withdraw();
  std::vector<ScatterGatherEntry> SgesOf(const PostedReceive& receive) const;

  // The request completes. It must be among the `among` oldest.
  std::optional<PostedReceive> Complete(uint64_t wr_id, size_t among);
  // Nobody will complete what is posted.
  void Clear();
  // The memory of all requests but the oldest `in_use` must be untouched.
  void CheckUntouched(size_t in_use);

  size_t outstanding() const { return posted_.size(); }
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  uint64_t slot_bytes() const { return slot_bytes_; }

 private:
  static uint64_t SlotBytes(const Config& config);

  Verdict& verdict_;
  Config config_;
  uint64_t slot_bytes_;
  Arena arena_;
  Random random_;
  std::vector<uint64_t> free_slots_;
  std::deque<PostedReceive> posted_;
  uint64_t next_wr_id_;
};

}  // namespace uroce::transport::simulation
