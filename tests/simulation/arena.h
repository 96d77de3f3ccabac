#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/simulation/random.h"
#include "transport/access.h"
#include "transport/ids.h"
#include "transport/memory/memory_table.h"
#include "transport/work_request.h"

namespace uroce::transport::simulation {

// Registered memory between two canaries. Offsets count from its first byte. Addresses are those of
// its memory region, whose iova is unrelated to the address of the storage.
class Arena {
 public:
  Arena(MemoryTable& table, PdId pd, size_t bytes, AccessFlags access, Random random);

  size_t size() const { return storage_.size() - 2 * kCanaryBytes; }
  uint8_t* at(uint64_t offset) { return storage_.data() + kCanaryBytes + offset; }
  std::span<uint8_t> bytes(uint64_t offset, size_t length) { return {at(offset), length}; }

  uint64_t address(uint64_t offset) const { return iova_ + offset; }
  LKey lkey() const { return key_; }
  RKey rkey() const { return {key_.value}; }
  ScatterGatherEntry entry(uint64_t offset, uint32_t length) const {
    return {address(offset), length, key_};
  }

  // Moves the region to other storage (ibv_rereg_mr): bytes, addresses and key stay the same. False
  // if a window is bound to it.
  bool Move();
  // Negative control: changes a byte of the storage that the region left.
  void ScribbleWhereItWas();
  // Deregister() takes the region away; it is false if a window is bound to it. Register() brings
  // the region back under another key.
  bool Deregister();
  void Register();
  bool registered() const { return registered_; }

  // Whether the canaries, and the storage that the region left, are unchanged.
  bool CanariesIntact() const;

 private:
  static constexpr size_t kCanaryBytes = 64;
  static constexpr uint8_t kCanary = 0xa5;
  // A region of at most this length keeps the storage it left, to detect late writes to it.
  static constexpr size_t kLongestKept = 1 << 16;

  MemoryRegion Region() { return {pd_, iova_, at(0), size(), access_}; }

  MemoryTable& table_;
  PdId pd_;
  AccessFlags access_;
  std::vector<uint8_t> storage_;
  uint64_t iova_;
  LKey key_;
  bool registered_ = false;
  std::vector<std::vector<uint8_t>> left_;  // the storage that the region left, and its bytes then
  std::vector<std::vector<uint8_t>> left_copies_;
};

// Hands out pieces of an arena; they are returned in the order they were handed out in.
class RingAllocator {
 public:
  explicit RingAllocator(uint64_t bytes) : bytes_(bytes) {}

  // Sets `*offset` and returns true if `length` bytes in one piece are free.
  bool Allocate(uint64_t length, uint64_t* offset);
  // Returns the oldest piece.
  void FreeOldest();

 private:
  struct Piece {
    uint64_t begin;
    uint64_t end;
  };
  uint64_t bytes_;
  std::vector<Piece> pieces_;  // oldest first, from first_ on
  size_t first_ = 0;
};

}  // namespace uroce::transport::simulation
