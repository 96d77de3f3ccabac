#include "transport/completion_queue.h"

#include <algorithm>
#include <bit>

#include "transport/limits.h"

namespace uroce::transport {

CompletionQueue::CompletionQueue(uint32_t capacity, EventQueue& events, void* context)
    : EventSource(context),
      events_(events),
      capacity_(capacity),
      mask_(std::bit_ceil(capacity) - 1),
      ring_(std::make_unique<Completion[]>(mask_ + 1u)) {}

bool CompletionQueue::Push(const Completion& completion, bool solicited) {
  if (in_error_) return false;
  const uint32_t produced = produced_.load(std::memory_order_relaxed);
  if (produced - consumed_.load(std::memory_order_acquire) >= capacity_) {
    in_error_ = true;
    events_.Raise(*this, EventType::kCqError);
    return false;
  }
  ring_[produced & mask_] = completion;
  produced_.store(produced + 1, std::memory_order_release);

  // An error counts as solicited (IBA 11.4.2.2).
  solicited |= completion.status != CompletionStatus::kSuccess;
  if (notify_on_ == NotifyOn::kAny || (notify_on_ == NotifyOn::kSolicited && solicited)) {
    notify_on_ = NotifyOn::kNothing;
    events_.Raise(*this, EventType::kCompletion);
  }
  return true;
}

uint32_t CompletionQueue::Poll(std::span<Completion> out) {
  const uint32_t consumed = consumed_.load(std::memory_order_relaxed);
  const uint32_t ready = produced_.load(std::memory_order_acquire) - consumed;
  const uint32_t count = std::min(ready, static_cast<uint32_t>(out.size()));
  for (uint32_t i = 0; i < count; ++i) out[i] = ring_[(consumed + i) & mask_];
  if (count != 0) consumed_.store(consumed + count, std::memory_order_release);
  return count;
}

void CompletionQueue::Arm(NotifyOn on) { notify_on_ = std::max(notify_on_, on); }

Status CompletionQueue::Resize(uint32_t capacity) {
  if (capacity == 0 || capacity > kMaxCqEntries) return Status::kInvalidArgument;
  const uint32_t consumed = consumed_.load(std::memory_order_relaxed);
  const uint32_t held = produced_.load(std::memory_order_relaxed) - consumed;
  if (capacity < held) return Status::kInvalidArgument;

  const uint32_t mask = std::bit_ceil(capacity) - 1;
  auto ring = std::make_unique<Completion[]>(mask + 1u);
  for (uint32_t i = 0; i < held; ++i) ring[i] = ring_[(consumed + i) & mask_];
  ring_ = std::move(ring);
  mask_ = mask;
  capacity_ = capacity;
  consumed_.store(0, std::memory_order_relaxed);
  produced_.store(held, std::memory_order_relaxed);
  return Status::kOk;
}

bool CompletionQueue::empty() const {
  return produced_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_relaxed);
}

}  // namespace uroce::transport
