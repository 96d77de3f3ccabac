#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/psn.h"
#include "transport/time.h"
#include "transport/wire/packet.h"
#include "transport/zeroed_array.h"

namespace uroce::transport {

// The memory for request packets that arrive before an earlier one: cells of one packet each,
// shared by the queue pairs of an endpoint. Pages that were never used take no memory.
class ReorderPool {
 public:
  // Throws std::bad_alloc. 0 cells: packets are never kept.
  ReorderPool(uint32_t cells, uint32_t max_payload_bytes);

  uint32_t free_cells() const { return free_count_; }

 private:
  friend class ReorderBuffer;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Cell {
    TransportHeaders headers;
    Time arrival;
    uint32_t payload_bytes;
    uint32_t previous;  // in the buffer, with a lower PSN
    uint32_t next;      // in the buffer, or of the free cells
  };

  uint32_t Take();
  void Give(uint32_t cell);
  std::span<uint8_t> PayloadOf(uint32_t cell) {
    return {&payloads_[size_t{cell} * max_payload_bytes_], max_payload_bytes_};
  }

  const uint32_t max_payload_bytes_;
  ZeroedArray<Cell> cells_;
  ZeroedArray<uint8_t> payloads_;
  uint32_t free_count_;
  uint32_t unused_ = 0;  // this cell and those behind it were never taken
  uint32_t first_free_ = kNone;
};

// The early packets of one queue pair, by ascending PSN.
//
// A queue pair may hold as many packets as cells are free: one takes half of the pool, two a third
// each, and a peer that leaves gaps on purpose on many queue pairs always leaves some for others.
class ReorderBuffer {
 public:
  explicit ReorderBuffer(ReorderPool& pool) : pool_(pool) {}
  ~ReorderBuffer() { Clear(); }
  ReorderBuffer(const ReorderBuffer&) = delete;
  ReorderBuffer& operator=(const ReorderBuffer&) = delete;

  bool empty() const { return count_ == 0; }
  uint32_t size() const { return count_; }

  // Keeps a copy of `packet`, which arrived at `now`. False if there is no room, or if it holds a
  // packet with this PSN already.
  bool Hold(const Packet& packet, Time now);

  // So many packets may arrive from the expected one on, of which each is executed or kept; more
  // may have room later.
  uint32_t RoomFrom(Psn expected) const;
  // Calls visit(psn) for each packet, in ascending order.
  template <class Visit>
  void ForEach(Visit visit) const {
    for (uint32_t cell = first_; cell != kNone; cell = pool_.cells_[cell].next) {
      visit(pool_.cells_[cell].headers.psn);
    }
  }

  // The packet with the lowest PSN; the buffer is not empty. Its addresses are not set, and its
  // payload is valid until PopFront.
  Psn front_psn() const { return pool_.cells_[first_].headers.psn; }
  Time front_arrival() const { return pool_.cells_[first_].arrival; }
  void ReadFront(Packet& packet) const;
  void PopFront();
  // Forgets the packets before `psn`.
  void DropBefore(Psn psn);
  void Clear();

 private:
  static constexpr uint32_t kNone = ReorderPool::kNone;

  ReorderPool& pool_;
  uint32_t first_ = kNone;
  uint32_t last_ = kNone;
  uint32_t count_ = 0;
};

}  // namespace uroce::transport
