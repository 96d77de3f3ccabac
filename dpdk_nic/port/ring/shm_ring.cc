#include "dpdk_nic/port/ring/shm_ring.h"

#include <utility>

namespace uroce::nic {
namespace {

static_assert(kSlotBytes < 1 << 13, "SlotWord has 13 bits of length");

// Longer frames are aligned, which makes their copy faster. Shorter ones begin near the word, which
// saves a cache line.
constexpr size_t kSmallFrameBytes = 512;

// The consumer publishes its position after so many frames: each time moves a cache line.
constexpr uint64_t kPositionInterval = 8;

// The producer prefetches the first lines of a slot so many frames ahead: they come from the
// consumer's cache while the producer builds other frames.
constexpr uint64_t kFramesAhead = 2;

// GCC's builtin prefetches for writing only if the processor is known to have PREFETCHW. All 64-bit
// x86 processors have it, or ignore it.
void PrefetchForWriting(const uint8_t* line) { asm volatile("prefetchw %0" : : "m"(*line)); }

std::atomic_ref<uint16_t> WordOf(uint8_t* slot) {
  return std::atomic_ref<uint16_t>(*reinterpret_cast<uint16_t*>(slot));
}

// Orders an earlier store before a later load, which nothing weaker does: the producer publishes,
// then looks whether the consumer sleeps; the consumer says that it sleeps, then looks for a
// published frame. One of the two sees the other's store.
void StoreLoadFence() {
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // TSan does not model fences; it does not need this one
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif
}

}  // namespace

std::span<uint8_t> FrameProducer::Acquire() {
  if (position_ - consumer_position_ >= kSlots) {
    const uint64_t consumer = ring_.control->consumer_position.load(std::memory_order_acquire);
    if (position_ - consumer > kSlots) broken_ = true;  // ahead of us, or gone backwards
    if (broken_ || position_ - consumer == kSlots) return {};
    consumer_position_ = consumer;
  }
  return {slot_ + offset_, kSlotBytes - offset_};
}

void FrameProducer::Commit(size_t frame_bytes) {
  WordOf(slot_).store(SlotWord(frame_bytes, offset_, position_).bits(), std::memory_order_release);
  slot_ = ring_.slot(++position_);
  const uint8_t* const ahead = ring_.slot(position_ + kFramesAhead);
  PrefetchForWriting(ahead);
  PrefetchForWriting(ahead + 64);
  offset_ = frame_bytes <= kSmallFrameBytes ? SlotWord::kNearOffset : SlotWord::kAlignedOffset;
  committed_since_wake_check_ = true;
}

bool FrameProducer::ConsumerNeedsWake() {
  if (!committed_since_wake_check_) return false;
  committed_since_wake_check_ = false;
  StoreLoadFence();
  std::atomic<uint32_t>& asleep = ring_.control->consumer_asleep;
  return asleep.load(std::memory_order_relaxed) != 0 &&
         asleep.exchange(0, std::memory_order_relaxed) != 0;
}

bool FrameProducer::ConsumerIsBehind() {
  const uint64_t consumer = ring_.control->consumer_position.load(std::memory_order_relaxed);
  const uint64_t since = position_ - std::exchange(asked_position_, position_);
  return position_ - consumer > since;
}

SlotWord FrameConsumer::LoadWord() const {
  return SlotWord(WordOf(slot_).load(std::memory_order_acquire));
}

std::span<const uint8_t> FrameConsumer::Receive() {
  if (broken_) return {};
  const SlotWord word = LoadWord();
  if (!word.IsPublishedAt(position_)) {
    PublishPosition();
    return {};
  }
  if (!word.IsSane()) {
    broken_ = true;
    return {};
  }
  return {slot_ + word.offset(), word.frame_bytes()};
}

void FrameConsumer::Release() {
  slot_ = ring_.slot(++position_);
  if (position_ - published_position_ >= kPositionInterval) PublishPosition();
}

void FrameConsumer::PublishPosition() {
  if (published_position_ == position_) return;
  ring_.control->consumer_position.store(position_, std::memory_order_release);
  published_position_ = position_;
}

bool FrameConsumer::BeginSleep() {
  PublishPosition();
  ring_.control->consumer_asleep.store(1, std::memory_order_relaxed);
  StoreLoadFence();
  if (!broken_ && LoadWord().IsPublishedAt(position_)) {
    EndSleep();
    return false;
  }
  return true;
}

void FrameConsumer::EndSleep() {
  ring_.control->consumer_asleep.store(0, std::memory_order_relaxed);
}

}  // namespace uroce::nic
