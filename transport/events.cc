#include "transport/events.h"

#include <bit>

namespace uroce::transport {

void EventQueue::Raise(EventSource& source, EventType type) {
  source.pending_ |= 1u << static_cast<uint32_t>(type);
  if (source.queued_) return;
  source.queued_ = true;
  source.next_ = nullptr;
  (tail_ == nullptr ? head_ : tail_->next_) = &source;
  tail_ = &source;
}

std::optional<Event> EventQueue::Take() {
  if (head_ == nullptr) return std::nullopt;
  EventSource& source = *head_;
  const int bit = std::countr_zero(source.pending_);
  source.pending_ &= source.pending_ - 1;
  if (source.pending_ == 0) Forget(source);
  return Event{static_cast<EventType>(bit), source.context_};
}

void EventQueue::Forget(EventSource& source) {
  if (!source.queued_) return;
  EventSource* before = nullptr;
  for (EventSource* at = head_; at != &source; at = at->next_) before = at;
  (before == nullptr ? head_ : before->next_) = source.next_;
  if (tail_ == &source) tail_ = before;
  source.queued_ = false;
  source.pending_ = 0;
}

}  // namespace uroce::transport
