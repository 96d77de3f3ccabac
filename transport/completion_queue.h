#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/completion.h"
#include "transport/events.h"
#include "transport/qp/deadline_queue.h"
#include "transport/status.h"
#include "transport/time.h"

namespace uroce::transport {

// The time, for completion queues that need it.
struct QueueClock {
  DeadlineQueue& deadlines;
  Time now{};  // of the present call, or of an earlier one as long as there are no users
  std::atomic<uint32_t> users{0};  // queues with timestamps or moderation
};

// When a completion queue that is armed raises its event: after `count` completions that it covers,
// or `period` after the first of them, whatever comes first. 0: not by this one; both 0, or a count
// of 1: at once.
struct Moderation {
  uint32_t count = 0;
  Duration period{};

  bool is_on() const { return count > 1 || (count == 0 && period.ns > 0); }
};

// A completion queue: a ring with one producer, the transport, and one consumer at a time.
//
// Poll may run while another thread pushes, so an application that finds completions does not wait
// for the engine. Everything else is called under the engine's lock. Polls of one queue from
// several threads have to be serialised by the caller (ibv_poll_cq does).
class CompletionQueue : public EventSource, private DeadlineClient {
 public:
  enum class NotifyOn : uint8_t { kNothing, kSolicited, kAny };

  // Room for at least `capacity` completions, 1 .. kMaxCqEntries. `timed`: it keeps the time of
  // each. Without a clock it is neither timed nor moderated.
  CompletionQueue(uint32_t capacity, EventQueue& events, void* context, QueueClock* clock = nullptr,
                  bool timed = false);

  // Adds a completion. A full queue loses it, and is in error from then on (IBA 11.6.3.2 CQ_ERR):
  // the completions already there stay pollable, and none is added any more.
  // Returns false if the completion was lost.
  bool Push(const Completion& completion, bool solicited);

  // Moves up to out.size() completions, oldest first, into `out`; returns how many.
  uint32_t Poll(std::span<Completion> out);
  // The oldest one, and when it was pushed: the `now` of the endpoint's call that completed it. Of
  // a queue that is not timed `time` stays as it is. False if the queue is empty.
  bool PollOne(Completion& out, Time& time);

  // Raises EventType::kCompletion once, for the next completion that `on` covers: at once if one is
  // in the queue that no event has announced, as NICs do. So a program that finds the queue empty,
  // arms it and sleeps misses nothing; one that takes an event, arms and then polls sees no second
  // event for the same completions. A solicited request does not weaken an earlier one for any
  // (IBA C11-31).
  void Arm(NotifyOn on);

  // Of events from now on; one that is being held back is raised.
  void SetModeration(const Moderation& moderation);

  // A queue that has had no completion raises its events there from now on, and takes the time from
  // there: that of another endpoint.
  void MoveTo(EventQueue& events, QueueClock& clock);

  // Nothing comes from the queue any more.
  void Retire();

  // Drops the completions of a queue pair that was reset or is being destroyed. Events that were
  // raised for them stay raised; what is left of others' keeps its turn to be announced. Not
  // concurrent with Poll.
  void Purge(Qpn qpn);

  // New room for `capacity` completions; what is in the queue stays. kInvalidArgument if more than
  // that is in the queue or it is not 1 .. kMaxCqEntries. Not concurrent with Poll.
  Status Resize(uint32_t capacity);
  // The same in two steps, because much is copied: the first may run while another thread pushes,
  // so it needs no lock of the engine. Nothing is polled, purged or resized in between.
  struct Room {
    uint32_t capacity = 0;
    uint64_t copied = 0;  // completions before this number are in the ring
    std::unique_ptr<Completion[]> ring;
    std::unique_ptr<Time[]> times;  // of a timed queue
  };
  Status PrepareRoom(uint32_t capacity, Room& room) const;
  // Afterwards `room` is what the queue had before.
  Status MoveTo(Room& room);

  uint32_t capacity() const { return capacity_; }
  bool empty() const;
  bool in_error() const { return in_error_; }

 private:
  void OnDeadline(Time now) override;
  // `count` completions, from the one of this number on, call for an event.
  void CallForEvent(uint64_t first, uint64_t count);
  void Announce(uint64_t number);
  // For how much it counts in QueueClock::users.
  uint32_t ClockUses() const {
    return (times_ != nullptr ? 1u : 0u) + (moderation_.is_on() ? 1u : 0u);
  }
  void Disarm();
  void CopyTo(Room& room) const;

  EventQueue* events_;
  uint32_t capacity_;
  uint32_t mask_;  // ring size - 1; the ring is the next power of two
  std::unique_ptr<Completion[]> ring_;
  std::unique_ptr<Time[]> times_;  // a ring like that; null: not timed
  QueueClock* clock_;
  Moderation moderation_{};
  uint64_t held_ = 0;       // completions whose event is held back
  uint64_t held_from_ = 0;  // the number of the first of them
  NotifyOn notify_on_ = NotifyOn::kNothing;
  bool in_error_ = false;
  // Completions are numbered as they are pushed. Those before `announced_` had an event; those
  // before `solicited_` include the youngest one that a solicited request covers.
  uint64_t announced_ = 0;
  uint64_t solicited_ = 0;
  alignas(64) std::atomic<uint64_t> produced_{0};
  alignas(64) std::atomic<uint64_t> consumed_{0};
};

}  // namespace uroce::transport
