#include "transport/completion_queue.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "transport/limits.h"

namespace uroce::transport {

CompletionQueue::CompletionQueue(uint32_t capacity, EventQueue& events, void* context,
                                 QueueClock* clock, bool timed)
    : EventSource(context),
      events_(&events),
      capacity_(capacity),
      mask_(std::bit_ceil(capacity) - 1),
      ring_(std::make_unique<Completion[]>(mask_ + 1u)),
      times_(timed ? std::make_unique<Time[]>(mask_ + 1u) : nullptr),
      clock_(clock) {
  if (timed) ++clock_->users;
}

void CompletionQueue::Retire() {
  Disarm();
  events_->Forget(*this);
  if (clock_ == nullptr) return;
  clock_->deadlines.Remove(*this);
  clock_->users -= ClockUses();
  moderation_ = {};
}

void CompletionQueue::MoveTo(EventQueue& events, QueueClock& clock) {
  clock_->users -= ClockUses();
  clock.users += ClockUses();
  if (notify_on_ != NotifyOn::kNothing) {
    --events_->armed;
    ++events.armed;
  }
  events_ = &events;
  clock_ = &clock;
}

bool CompletionQueue::Push(const Completion& completion, bool solicited) {
  if (in_error_) return false;
  const uint64_t number = produced_.load(std::memory_order_relaxed);
  if (number - consumed_.load(std::memory_order_acquire) >= capacity_) {
    if (ignores_overrun_) return true;
    in_error_ = true;
    events_->Raise(*this, EventType::kCqError);
    return false;
  }
  // An error counts as solicited (IBA 11.4.2.2).
  solicited |= completion.status != CompletionStatus::kSuccess;
  Completion& entry = ring_[number & mask_];
  entry = completion;
  entry.solicited = solicited;
  if (times_ != nullptr) [[unlikely]]
    times_[number & mask_] = clock_->now;
  produced_.store(number + 1, std::memory_order_release);

  if (solicited) solicited_ = number + 1;
  if (notify_on_ == NotifyOn::kAny || (notify_on_ == NotifyOn::kSolicited && solicited)) {
    CallForEvent(number, 1);
  }
  return true;
}

void CompletionQueue::CallForEvent(uint64_t first, uint64_t count) {
  if (!moderation_.is_on()) return Announce(first);
  if (held_ == 0) {
    held_from_ = first;
    if (moderation_.period.ns > 0) clock_->deadlines.Set(*this, clock_->now + moderation_.period);
  }
  held_ += count;
  if (moderation_.count != 0 && held_ >= moderation_.count) Announce(held_from_);
}

void CompletionQueue::OnDeadline(Time now) {
  if (leftovers_until_ != 0) return OnUnpolled(now);
  if (held_ != 0) Announce(held_from_);
}

void CompletionQueue::Announce(uint64_t number) {
  if (held_ != 0 || leftovers_until_ != 0) clock_->deadlines.Set(*this, kNever);
  held_ = leftovers_until_ = 0;
  announced_ = number + 1;
  const uint64_t oldest = consumed_.load(std::memory_order_acquire);
  // Of an empty queue it does not tell whether a poll has found it empty since.
  const bool is_empty = oldest == produced_.load(std::memory_order_relaxed);
  oldest_at_event_ = is_empty ? kNone : oldest;
  Disarm();
  events_->Raise(*this, EventType::kCompletion);
}

void CompletionQueue::WatchLeftovers(Time now) {
  leftovers_until_ = announced_when_armed_.exchange(0, std::memory_order_relaxed);
  polled_until_ = consumed_.load(std::memory_order_acquire);
  if (leftovers_until_ == 0) return;
  if (clock_ == nullptr) return Announce(polled_until_);
  clock_->deadlines.Set(*this, now + kPatience);
}

// Time is up for the leftovers: the program goes on to poll them, or it is told of them.
void CompletionQueue::OnUnpolled(Time now) {
  const uint64_t consumed = consumed_.load(std::memory_order_acquire);
  if (consumed >= leftovers_until_ && held_ == 0) {
    leftovers_until_ = 0;
  } else if (consumed != std::exchange(polled_until_, consumed)) {
    clock_->deadlines.Set(*this, now + kPatience);
  } else {
    Announce(held_ != 0 ? held_from_ : consumed);
  }
}

void CompletionQueue::SetModeration(const Moderation& moderation) {
  if (held_ != 0) Announce(held_from_);
  if (moderation_.is_on()) --clock_->users;
  moderation_ = moderation;
  if (moderation_.is_on()) ++clock_->users;
}

uint32_t CompletionQueue::Poll(std::span<Completion> out) {
  const uint64_t consumed = consumed_.load(std::memory_order_relaxed);
  const uint64_t ready = produced_.load(std::memory_order_acquire) - consumed;
  const auto count = static_cast<uint32_t>(std::min<uint64_t>(ready, out.size()));
  for (uint32_t i = 0; i < count; ++i) out[i] = ring_[(consumed + i) & mask_];
  if (count != 0) consumed_.store(consumed + count, std::memory_order_release);
  return count;
}

bool CompletionQueue::PollOne(Completion& out, Time& time) {
  const uint64_t consumed = consumed_.load(std::memory_order_relaxed);
  if (consumed == produced_.load(std::memory_order_acquire)) return false;
  out = ring_[consumed & mask_];
  if (times_ != nullptr) time = times_[consumed & mask_];
  consumed_.store(consumed + 1, std::memory_order_release);
  return true;
}

void CompletionQueue::Disarm() {
  if (notify_on_ != NotifyOn::kNothing) --events_->armed;
  notify_on_ = NotifyOn::kNothing;
  if (announced_when_armed_.load(std::memory_order_relaxed) != 0) {
    announced_when_armed_.store(0, std::memory_order_relaxed);
  }
}

// An event that is raised here announces only the oldest completion: a program that polls some of
// them and arms again gets another event for the rest.
void CompletionQueue::Arm(NotifyOn on) {
  if (notify_on_ == NotifyOn::kNothing) ++events_->armed;
  notify_on_ = std::max(notify_on_, on);
  if (held_ != 0) return;  // the event that is held back comes anyway
  const uint64_t consumed = consumed_.load(std::memory_order_acquire);
  if (consumed == oldest_at_event_) {
    const bool any = notify_on_ == NotifyOn::kAny;
    announced_when_armed_.store(any ? produced_.load(std::memory_order_relaxed) : solicited_,
                                std::memory_order_relaxed);
    return;
  }
  uint64_t oldest = std::max(announced_, consumed);
  if (notify_on_ == NotifyOn::kSolicited) {
    while (oldest < solicited_ && !ring_[oldest & mask_].solicited) ++oldest;
    if (oldest >= solicited_) return;
  } else if (oldest == produced_.load(std::memory_order_relaxed)) {
    return;
  }
  const bool any = notify_on_ == NotifyOn::kAny;
  CallForEvent(oldest, any ? produced_.load(std::memory_order_relaxed) - oldest : 1);
}

void CompletionQueue::Purge(Qpn qpn) {
  if (held_ != 0) Announce(held_from_);
  const uint64_t consumed = consumed_.load(std::memory_order_relaxed);
  const uint64_t produced = produced_.load(std::memory_order_relaxed);
  const uint64_t announced = announced_;
  oldest_at_event_ = kNone;  // its completion may be one of those that go
  uint64_t kept = consumed;
  announced_ = std::min(announced_, consumed);
  solicited_ = std::min(solicited_, consumed);
  for (uint64_t number = consumed; number < produced; ++number) {
    const Completion& entry = ring_[number & mask_];
    if (entry.qpn == qpn) continue;
    if (entry.solicited) solicited_ = kept + 1;
    if (times_ != nullptr) times_[kept & mask_] = times_[number & mask_];
    ring_[kept++ & mask_] = entry;
    if (number < announced) announced_ = kept;
  }
  produced_.store(kept, std::memory_order_release);
  leftovers_until_ = std::min(leftovers_until_, kept);
  announced_when_armed_ = std::min(announced_when_armed_.load(std::memory_order_relaxed), kept);
}

Status CompletionQueue::Resize(uint32_t capacity) {
  Room room;
  const Status status = PrepareRoom(capacity, room);
  return status == Status::kOk ? MoveTo(room) : status;
}

Status CompletionQueue::PrepareRoom(uint32_t capacity, Room& room) const {
  if (capacity == 0 || capacity > kMaxCqEntries) return Status::kInvalidArgument;
  room = {.capacity = capacity,
          .copied = consumed_.load(std::memory_order_relaxed),
          .ring = std::make_unique<Completion[]>(std::bit_ceil(capacity)),
          .times = times_ == nullptr ? nullptr : std::make_unique<Time[]>(std::bit_ceil(capacity))};
  CopyTo(room);
  return Status::kOk;
}

// Copies the completions from number room.copied on, as far as the room goes.
void CompletionQueue::CopyTo(Room& room) const {
  const uint32_t mask = std::bit_ceil(room.capacity) - 1;
  const uint64_t end = std::min(produced_.load(std::memory_order_acquire),
                                consumed_.load(std::memory_order_relaxed) + room.capacity);
  for (; room.copied < end; ++room.copied) {
    room.ring[room.copied & mask] = ring_[room.copied & mask_];
    if (times_ != nullptr) room.times[room.copied & mask] = times_[room.copied & mask_];
  }
}

Status CompletionQueue::MoveTo(Room& room) {
  CopyTo(room);
  if (room.copied != produced_.load(std::memory_order_relaxed)) return Status::kInvalidArgument;
  std::swap(capacity_, room.capacity);
  std::swap(ring_, room.ring);
  std::swap(times_, room.times);
  mask_ = std::bit_ceil(capacity_) - 1;
  return Status::kOk;
}

bool CompletionQueue::empty() const {
  return produced_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_relaxed);
}

}  // namespace uroce::transport
