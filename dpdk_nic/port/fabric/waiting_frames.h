#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/wire/frame_builder.h"

namespace uroce::nic {

// Frames that wait for the way to their destination, as packets wait for an answer of ARP: a queue
// for each destination, all in one bounded memory. A frame that finds no room is not taken.
class WaitingFrames {
 public:
  // In total, and of one destination: no more than the ring of a new link takes at once.
  static constexpr size_t kMaxFrames = 2'048;
  static constexpr size_t kMaxFramesOfOne = 128;

  // The frames for one destination. Must be empty when it is destroyed.
  class Queue {
   public:
    bool empty() const { return count_ == 0; }
    size_t size() const { return count_; }

   private:
    friend class WaitingFrames;
    uint16_t first_ = 0;
    uint16_t last_ = 0;
    uint16_t count_ = 0;
  };

  WaitingFrames();

  // Whether Add would find no room.
  bool IsFull(const Queue& queue) const {
    return queue.count_ == kMaxFramesOfOne || (free_count_ == 0 && used_slots_ == kMaxFrames);
  }
  // Copies the frame, at most transport::kMaxFrameBytes, behind the others. False: no room.
  bool Add(Queue& queue, std::span<const uint8_t> frame);
  // The oldest frame of a queue that is not empty. Valid until it is removed.
  std::span<const uint8_t> Front(const Queue& queue) const;
  void RemoveFront(Queue& queue);
  // Returns how many it removed.
  size_t RemoveAll(Queue& queue);

 private:
  struct Slot {
    uint16_t next;  // in its queue, or in the list of free slots
    uint16_t frame_bytes;
    std::array<uint8_t, transport::kMaxFrameBytes> bytes;
  };
  static_assert(kMaxFrames <= UINT16_MAX);

  // Not cleared: memory that no frame has used yet costs nothing.
  const std::unique_ptr<Slot[]> slots_;
  size_t used_slots_ = 0;  // slots behind have never been used
  size_t free_count_ = 0;  // of the used ones
  uint16_t first_free_ = 0;
};

}  // namespace uroce::nic
