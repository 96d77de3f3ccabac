#include "transport/memory/sge_cursor.h"

#include <algorithm>
#include <array>

#include "transport/guarded_access.h"

namespace uroce::transport {

void SgeCursor::Seek(uint64_t offset) {
  if (offset < index_offset_) {
    index_ = 0;
    index_offset_ = 0;
  }
  while (index_ < list_.size() && offset - index_offset_ >= list_[index_].length) {
    index_offset_ += list_[index_].length;
    ++index_;
  }
}

SgeCursor::Resolution SgeCursor::Resolve(const MemoryTable& memory, PdId pd, uint64_t offset,
                                         size_t length, uint32_t wanted,
                                         std::span<Extent, kMaxSges> out) {
  size_t extents = 0;
  while (length != 0) {
    Seek(offset);
    if (index_ == list_.size()) return {Result::kTooShort, 0};
    const ScatterGatherEntry& entry = list_[index_];
    const uint64_t within = offset - index_offset_;
    const size_t part = std::min<uint64_t>(length, entry.length - within);
    uint8_t* data = memory.LocalAddress(pd, entry.lkey, entry.address + within, part, wanted);
    if (data == nullptr) return {Result::kProtectionError, 0};
    out[extents++] = {data, part};
    offset += part;
    length -= part;
  }
  return {Result::kOk, extents};
}

std::optional<size_t> SgeCursor::Gather(const MemoryTable& memory, PdId pd, uint64_t offset,
                                        size_t length, std::span<PayloadPiece, kMaxSges> out) {
  if (list_.size() == 1 && length != 0) [[likely]] {
    const ScatterGatherEntry& entry = list_.front();
    if (offset + length > entry.length) return std::nullopt;
    out[0] = {memory.LocalAddress(pd, entry.lkey, entry.address + offset, length, 0), length};
    return out[0].data != nullptr ? std::optional<size_t>(1) : std::nullopt;
  }
  std::array<Extent, kMaxSges> extents;
  const Resolution resolution = Resolve(memory, pd, offset, length, 0, extents);
  if (resolution.result != Result::kOk) return std::nullopt;
  for (size_t i = 0; i < resolution.extents; ++i) out[i] = {extents[i].data, extents[i].length};
  return resolution.extents;
}

SgeCursor::Result SgeCursor::Scatter(const MemoryTable& memory, PdId pd, uint64_t offset,
                                     std::span<const uint8_t> bytes) {
  std::array<Extent, kMaxSges> extents;
  const Resolution resolution =
      Resolve(memory, pd, offset, bytes.size(), AccessFlags::kLocalWrite, extents);
  if (resolution.result != Result::kOk) return resolution.result;
  const uint8_t* from = bytes.data();
  for (size_t i = 0; i < resolution.extents; ++i) {
    const bool is_done =
        memory.IsLost(extents[i].data) || GuardedCopy(extents[i].data, from, extents[i].length);
    if (!is_done) return Result::kMemoryGone;
    from += extents[i].length;
  }
  return Result::kOk;
}

}  // namespace uroce::transport
