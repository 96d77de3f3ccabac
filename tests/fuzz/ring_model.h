#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "dpdk_nic/port/ring/ring_memory.h"
#include "dpdk_nic/port/ring/shm_ring.h"

namespace uroce::nic {

// Predicts an honest end of a link whose memory the other side changes at will: every frame that
// the end returns and every byte that it writes. Keeps a copy of the expected memory.
class RingModel {
 public:
  // `memory` is a mapping of the link's memory, all zeros; the honest end has `side`.
  RingModel(const RingMemory& memory, int side);
  // Zeroes the memory for another honest end. The cost is proportional to the bytes written.
  void Reset();

  // The other side wrote these bytes.
  void OnForeignWrite(size_t offset, std::span<const uint8_t> bytes);

  // The place of the next frame in the memory, or nothing.
  struct Frame {
    size_t offset;
    size_t bytes;
    bool operator==(const Frame&) const = default;
  };
  std::optional<Frame> Receive();
  void Release();
  // The room for the next frame, or nothing if the ring is full.
  std::optional<Frame> Acquire();
  void Commit(std::span<const uint8_t> frame);
  // Whether the other side must be woken.
  bool Flush();
  bool BeginSleep();
  void EndSleep();
  bool broken() const { return is_receiver_broken_ || is_sender_broken_; }

  uint64_t consumer_position(int ring) const { return Load<uint64_t>(PositionOffset(ring)); }
  uint32_t consumer_asleep(int ring) const { return Load<uint32_t>(AsleepOffset(ring)); }

  uint64_t received() const { return received_; }
  uint64_t sent() const { return sent_; }

  // Offsets of slots and controls in the memory. `ring` is the side that produces into it.
  size_t SlotOffset(int ring, uint64_t position) const;
  size_t PositionOffset(int ring) const;
  size_t AsleepOffset(int ring) const;
  size_t bytes() const { return memory_.size(); }

  // Whether the real memory equals the expected memory.
  bool Matches() const;

 private:
  template <class T>
  T Load(size_t offset) const {
    T value;
    memcpy(&value, memory_.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  void Store(size_t offset, T value);
  SlotWord NextWord() const;
  void PublishPosition();

  uint8_t* RealBytes() const;

  const RingMemory& real_;
  const int side_;
  const int other_;
  std::vector<uint8_t> memory_;
  std::vector<size_t> written_;  // pages, some of them several times
  uint64_t received_ = 0;
  uint64_t published_ = 0;
  uint64_t sent_ = 0;
  uint64_t consumer_ = 0;  // the other side's position when last read
  size_t next_offset_ = SlotWord::kNearOffset;
  bool has_committed_ = false;
  bool is_receiver_broken_ = false;
  bool is_sender_broken_ = false;
};

}  // namespace uroce::nic
