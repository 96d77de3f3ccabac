#include "transport/recovery/reorder_buffer.h"

#include <algorithm>

namespace uroce::transport {

ReorderPool::ReorderPool(uint32_t cells, uint32_t max_payload_bytes)
    : max_payload_bytes_(max_payload_bytes),
      cells_(MakeZeroedArray<Cell>(cells)),
      payloads_(MakeZeroedArray<uint8_t>(size_t{cells} * max_payload_bytes)),
      free_count_(cells) {}

// The caller has seen that a cell is free.
uint32_t ReorderPool::Take() {
  --free_count_;
  if (first_free_ == kNone) return unused_++;
  const uint32_t cell = first_free_;
  first_free_ = cells_[cell].next;
  return cell;
}

void ReorderPool::Give(uint32_t cell) {
  ++free_count_;
  cells_[cell].next = first_free_;
  first_free_ = cell;
}

// Most early packets come in the order of their PSNs, so the place is looked for from the end.
bool ReorderBuffer::Hold(const Packet& packet, Time now) {
  const size_t bytes = packet.payload.size();
  if (count_ >= pool_.free_cells() || bytes > pool_.max_payload_bytes_) return false;
  auto& cells = pool_.cells_;
  uint32_t before = last_;
  while (before != kNone && cells[before].headers.psn.IsAfter(packet.psn)) {
    before = cells[before].previous;
  }
  if (before != kNone && cells[before].headers.psn == packet.psn) return false;

  const uint32_t cell = pool_.Take();
  const uint32_t after = before == kNone ? first_ : cells[before].next;
  cells[cell] = {.headers = packet,
                 .arrival = now,
                 .payload_bytes = static_cast<uint32_t>(bytes),
                 .previous = before,
                 .next = after};
  std::ranges::copy(packet.payload, pool_.PayloadOf(cell).begin());
  (before == kNone ? first_ : cells[before].next) = cell;
  (after == kNone ? last_ : cells[after].previous) = cell;
  ++count_;
  return true;
}

uint32_t ReorderBuffer::RoomFrom(Psn expected) const {
  const uint32_t free = pool_.free_cells();
  const uint32_t more = count_ < free ? (free - count_) / 2 : 0;  // see Hold
  const int32_t span = empty() ? 0 : pool_.cells_[last_].headers.psn.DistanceFrom(expected);
  return static_cast<uint32_t>(std::max(span, 0)) + 1 + more;
}

void ReorderBuffer::ReadFront(Packet& packet) const {
  const auto& cell = pool_.cells_[first_];
  static_cast<TransportHeaders&>(packet) = cell.headers;
  packet.payload = pool_.PayloadOf(first_).first(cell.payload_bytes);
}

void ReorderBuffer::PopFront() {
  const uint32_t cell = first_;
  first_ = pool_.cells_[cell].next;
  (first_ == kNone ? last_ : pool_.cells_[first_].previous) = kNone;
  pool_.Give(cell);
  --count_;
}

void ReorderBuffer::DropBefore(Psn psn) {
  while (!empty() && front_psn().IsBefore(psn)) PopFront();
}

void ReorderBuffer::Clear() {
  while (!empty()) PopFront();
}

}  // namespace uroce::transport
