#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/icrc.h"

// A ring of frame-sized slots in memory that two processes share: one producer, one consumer, one
// direction. The two never write the same cache line but for `consumer_asleep`.
//
//   RingControl   | consumer_position, _answered | consumer_asleep | producer_waives, _left |
//   slot 0        | word | frame ...                      |   kSlotBytes each
//   ...                                                       in the order of Ring::slot
//   slot 511      | word | frame ...                      |
//
// The word in a slot's first line publishes the frame behind it: when its generation is that of the
// consumer's lap, the frame is complete. So a small frame costs a single cache line, and a producer
// that is killed in the middle of a frame has published nothing.
//
// Neither side believes what the other wrote: positions and lengths are read once and checked.

namespace uroce::nic {

// 4736 bytes although 4224 would hold every frame: with slots as close as the frames fill them, the
// hardware prefetcher of the reader runs into the slot that the writer is filling.
inline constexpr size_t kSlotBytes = 4'736;
// Full slots fill twice the megabyte of a second-level cache. When the writer comes back to a slot,
// the slot is in the third level: to take it out of the reader's cache takes half as long again.
inline constexpr uint32_t kSlots = 512;
// Consecutive frames lie so many slots apart, modulo the size of their group. As neighbours, small
// frames had half the rate when the reader kept up with the writer: most likely because the
// reader's hardware prefetcher follows their stride into slots that the writer is about to fill,
// and takes them from its cache. With the whole ring as one group, large frames were 7 % slower.
inline constexpr uint64_t kSlotStep = 37;
inline constexpr uint64_t kSlotGroup = 64;
static_assert(kSlotStep % 2 == 1 && kSlotGroup % 2 == 0 && kSlots % kSlotGroup == 0,
              "each slot has its turn in a lap");

// The word that publishes a slot: 13 bits length, 1 bit where the frame begins, 2 bits generation.
// Zeroed memory is generation 0, which no consumer waits for in its first lap.
class SlotWord {
 public:
  // Right behind the word: a frame of 62 bytes (an ACK, a SEND of up to 46 bytes) shares its line.
  static constexpr size_t kNearOffset = 2;
  // The payload of a bare frame (transport/wire/bare_frame.h) that begins here is aligned to a
  // cache line, unless the frame has extension headers.
  static constexpr size_t kAlignedOffset = 48;

  explicit constexpr SlotWord(uint16_t bits) : bits_(bits) {}
  constexpr SlotWord(size_t frame_bytes, size_t offset, uint64_t position)
      : bits_(static_cast<uint16_t>(frame_bytes << 3 | (offset == kAlignedOffset ? 4 : 0) |
                                    Generation(position))) {}

  constexpr uint16_t bits() const { return bits_; }
  constexpr size_t frame_bytes() const { return bits_ >> 3; }
  constexpr size_t offset() const { return (bits_ & 4) != 0 ? kAlignedOffset : kNearOffset; }
  constexpr bool IsPublishedAt(uint64_t position) const {
    return (bits_ & 3) == Generation(position);
  }
  // Whether the frame lies inside its slot.
  constexpr bool IsSane() const {
    return frame_bytes() > 0 && offset() + frame_bytes() <= kSlotBytes;
  }

 private:
  static constexpr uint16_t Generation(uint64_t position) {
    return static_cast<uint16_t>((position / kSlots + 1) & 3);
  }
  uint16_t bits_;
};

// The shared state of a ring beside its slots. Its fields are 128 bytes apart because processors
// fetch lines in pairs.
struct RingControl {
  alignas(128) std::atomic<uint64_t> consumer_position;  // frames released; counts without end
  // Frames released that need no answer any more: every answer to them is in the other ring.
  std::atomic<uint64_t> consumer_answered;
  alignas(128) std::atomic<uint32_t> consumer_asleep;  // not 0: wake it after publishing
  // An IcrcUse: what the producer of this ring does not need in either direction (RingLink::Waive).
  // Never withdrawn.
  alignas(128) std::atomic<uint32_t> producer_waives;
  // Not 0: the producer lives on, although it closes the link.
  std::atomic<uint32_t> producer_left;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// One ring as it lies in shared memory.
struct Ring {
  RingControl* control = nullptr;
  uint8_t* slots = nullptr;

  uint8_t* slot(uint64_t position) const {
    const uint64_t group = position % kSlots / kSlotGroup * kSlotGroup;
    return slots + (group + position * kSlotStep % kSlotGroup) * kSlotBytes;
  }
};

// The sending end. Not thread-safe.
class FrameProducer {
 public:
  explicit FrameProducer(Ring ring) : ring_(ring), slot_(ring.slot(0)) {}

  // Room for the next frame, or an empty span when the ring is full or the consumer's position
  // makes no sense (then broken() is true and stays so). This side never reads the room: loading
  // from a line that the consumer read last costs a round trip to its cache.
  std::span<uint8_t> Acquire();
  void Commit(size_t frame_bytes);

  // Publishes what this side does not need, before the frames that are committed from now on.
  void Waive(transport::IcrcUse use) {
    ring_.control->producer_waives.store(static_cast<uint32_t>(use), std::memory_order_relaxed);
  }

  // Whether the consumer sleeps and must be woken for the committed frames. Returns true once for
  // each time it went to sleep.
  bool ConsumerNeedsWake();
  // Whether frames that were committed before the last call are still not released.
  bool ConsumerIsBehind();
  // Publishes that this side lives on when the link is closed.
  void Leave() { ring_.control->producer_left.store(1, std::memory_order_release); }

  // Frames that the consumer has answered. All, if it writes nonsense: then nothing waits for it.
  uint64_t answered() const {
    const uint64_t answered = ring_.control->consumer_answered.load(std::memory_order_acquire);
    return answered > position_ ? position_ : answered;
  }
  // Frames not released, by the consumer's own account: any number if it writes nonsense.
  uint64_t Backlog() const {
    return position_ - ring_.control->consumer_position.load(std::memory_order_relaxed);
  }

  bool broken() const { return broken_; }
  // Frames committed.
  uint64_t position() const { return position_; }

 private:
  Ring ring_;
  uint8_t* slot_;                   // of the next frame
  uint64_t position_ = 0;           // of the next frame
  uint64_t consumer_position_ = 0;  // as last read
  uint64_t asked_position_ = 0;     // position_ at the last ConsumerIsBehind
  // Where the next frame will begin: small frames begin near the word, large ones aligned. A guess
  // from the size of the last one: a wrong guess costs a cache line or an unaligned copy.
  size_t offset_ = SlotWord::kNearOffset;
  bool committed_since_wake_check_ = false;
  bool broken_ = false;
};

// The receiving end. Not thread-safe.
class FrameConsumer {
 public:
  explicit FrameConsumer(Ring ring) : ring_(ring), slot_(ring.slot(0)) {}

  // The next frame, or an empty span when there is none. Valid until Release. A slot whose length
  // makes no sense sets broken(): the producer cannot be followed any more.
  std::span<const uint8_t> Receive();
  void Release();
  // An IcrcUse, or any number if the producer writes nonsense.
  uint32_t producer_waives() const {
    return ring_.control->producer_waives.load(std::memory_order_relaxed);
  }
  bool producer_has_left() const {
    return ring_.control->producer_left.load(std::memory_order_acquire) != 0;
  }
  // Tells the producer what is released. Done every few frames, and when the ring is empty.
  void PublishPosition();
  // Tells the producer that all answers to the released frames are committed to the other ring.
  void PublishAnswered() {
    ring_.control->consumer_answered.store(position_, std::memory_order_release);
  }

  // Asks to be woken. Returns false if a frame is there already: stay awake.
  bool BeginSleep();
  void EndSleep();

  bool broken() const { return broken_; }
  // Frames released.
  uint64_t position() const { return position_; }

 private:
  SlotWord LoadWord() const;

  Ring ring_;
  uint8_t* slot_;  // of the next frame
  uint64_t position_ = 0;
  uint64_t published_position_ = 0;
  bool broken_ = false;
};

}  // namespace uroce::nic
