#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "transport/ids.h"
#include "transport/limits.h"
#include "transport/memory/memory_table.h"
#include "transport/wire/payload_piece.h"
#include "transport/work_request.h"

namespace uroce::transport {

// Bytes in all entries of a list together.
inline uint64_t TotalBytes(std::span<const ScatterGatherEntry> list) {
  if (list.size() == 1) [[likely]]
    return list.front().length;
  uint64_t bytes = 0;
  for (const ScatterGatherEntry& entry : list) bytes += entry.length;
  return bytes;
}

// A position in the message that a scatter/gather list holds. It remembers the entry it was in
// last, so going through a message from front to back costs one step an entry; any offset is
// allowed, in any order.
//
// The list is not copied: it must stay where it is while the cursor is in use. Every access looks
// the keys up afresh, because a region can be deregistered at any time.
class SgeCursor {
 public:
  enum class Result : uint8_t {
    kOk,
    kProtectionError,  // an entry's key, range or access is wrong
    kTooShort,         // the list ends before the bytes do
    kMemoryGone,       // an entry is right, but its memory cannot be accessed any more
  };

  SgeCursor() = default;
  explicit SgeCursor(std::span<const ScatterGatherEntry> list) : list_(list) {}

  std::span<const ScatterGatherEntry> list() const { return list_; }

  // Finds the bytes [offset, offset + length) of the message for transmission. Returns the number
  // of pieces put into `out`, none of them empty; nullopt when an entry fails its check or the list
  // is too short.
  std::optional<size_t> Gather(const MemoryTable& memory, PdId pd, uint64_t offset, size_t length,
                               std::span<PayloadPiece, kMaxSges> out);

  // Copies received bytes to the bytes [offset, ...) of the message; the entries need local write
  // access. kProtectionError and kTooShort: nothing was written; kMemoryGone: a part may have been.
  Result Scatter(const MemoryTable& memory, PdId pd, uint64_t offset,
                 std::span<const uint8_t> bytes);

 private:
  // A contiguous part of the message, checked.
  struct Extent {
    uint8_t* data;
    size_t length;
  };
  struct Resolution {
    Result result;
    size_t extents;
  };

  // Makes index_ the entry that holds the byte `offset`, or the end of the list.
  void Seek(uint64_t offset);
  // Resolves [offset, offset + length) into extents in the order of the message.
  Resolution Resolve(const MemoryTable& memory, PdId pd, uint64_t offset, size_t length,
                     uint32_t wanted, std::span<Extent, kMaxSges> out);

  std::span<const ScatterGatherEntry> list_;
  size_t index_ = 0;
  uint64_t index_offset_ = 0;  // of the first byte of list_[index_] in the message
};

}  // namespace uroce::transport
