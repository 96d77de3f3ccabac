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

// Marks the wr_ids of receives, as sends and receives may share a completion queue: the opcode of a
// completion in error is undefined.
inline constexpr uint64_t kReceiveBit = uint64_t{1} << 63;

// A receive request and the memory it describes.
struct PostedReceive {
  uint64_t wr_id = 0;
  uint64_t offset = 0;  // in the arena
  Layout layout;
  std::vector<uint8_t> before;  // bytes of the area before the receive
};

// The receive requests posted to one queue, a queue pair's own or a shared one, that have not
// completed.
class ReceivePool {
 public:
  // Each request has room for `bytes` in at most `max_sges` pieces; there is memory for `slots`
  // requests. wr_ids count from `first_wr_id`.
  struct Config {
    uint32_t bytes = 0;
    uint32_t max_sges = 0;
    uint32_t slots = 0;
    uint64_t first_wr_id = 0;
  };
  ReceivePool(Verdict& verdict, MemoryTable& table, PdId pd, const Config& config, Random random);

  // A request to post; nullptr if there is no memory for one more. It counts as posted until
  // Withdraw().
  const PostedReceive* Draw();
  // The newest request was not posted after all.
  void Withdraw();
  std::vector<ScatterGatherEntry> SgesOf(const PostedReceive& receive) const;

  // The request completes. It must be one of the `among` oldest.
  std::optional<PostedReceive> Complete(uint64_t wr_id, size_t among);
  // Drops all requests: none of those posted will complete.
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
