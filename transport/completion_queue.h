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

// The clock of the completion queues that need the time.
struct QueueClock {
  DeadlineQueue& deadlines;
  Time now{};  // of the current call; may be out of date while there are no users
  std::atomic<uint32_t> users{0};  // queues with timestamps or moderation
};

// When an armed completion queue raises its event: after `count` completions that the arming
// covers, or `period` after the first of them, whichever comes first. 0 disables that condition;
// both 0, or a count of 1: at once.
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

  // Room for at least `capacity` completions, 1 .. kMaxCqEntries. `timed`: the queue records the
  // time of each. A queue without a clock is neither timed nor moderated.
  CompletionQueue(uint32_t capacity, EventQueue& events, void* context, QueueClock* clock = nullptr,
                  bool timed = false);

  // Adds a completion. A full queue loses it, and is in error from then on (IBA 11.6.3.2 CQ_ERR):
  // the completions already there stay pollable, and none is added any more. Returns false then.
  bool Push(const Completion& completion, bool solicited);

  // From now on a full queue loses completions without an error.
  void IgnoreOverrun() { ignores_overrun_ = true; }

  // Moves up to out.size() completions, oldest first, into `out`; returns how many.
  uint32_t Poll(std::span<Completion> out);
  // Takes the oldest completion and the time it was pushed: the `now` of the endpoint's call that
  // completed it. A queue that is not timed leaves `time` alone. False if the queue is empty.
  bool PollOne(Completion& out, Time& time);

  // Raises EventType::kCompletion once, for the next completion that `on` covers; at once, as NICs
  // do, if the queue already holds one that no event has announced. So a program that finds the
  // queue empty, arms it and sleeps misses nothing. An event also announces what comes before the
  // next poll: a program that takes an event, arms and then polls everything sees no second event
  // for the same completions (LeavesAnnounced is for one that polls a part). Arming for solicited
  // completions does not weaken an earlier arming for any (IBA C11-31). Not concurrent with Poll.
  void Arm(NotifyOn on);

  // Whether a poll has left completions in the armed queue that were there when it was armed. Call
  // it after each poll; if it is true, call WatchLeftovers under the engine's lock. The event for
  // the leftovers comes when the program has not polled for kPatience: perftest polls 16 and waits
  // for the next event, other programs go on to poll and are to see none.
  bool LeavesAnnounced() const {
    return consumed_.load(std::memory_order_relaxed) <
           announced_when_armed_.load(std::memory_order_relaxed);
  }
  void WatchLeftovers(Time now);
  static constexpr Duration kPatience = Microseconds(50);

  // Applies to later events; an event that is being held back is raised at once.
  void SetModeration(const Moderation& moderation);

  // Moves the queue to another endpoint, whose event queue and clock these are. The queue has had
  // no completion yet.
  void MoveTo(EventQueue& events, QueueClock& clock);

  // Disarms the queue, which raises no more events. Called before it is destroyed.
  void Retire();

  // Drops the completions of a queue pair that was reset or is being destroyed. Events that were
  // raised for them stay raised. Completions of other queue pairs that no event has announced still
  // get theirs. Not concurrent with Poll.
  void Purge(Qpn qpn);

  // Changes the capacity; completions in the queue stay. kInvalidArgument if the queue holds more
  // than `capacity`, or it is not 1 .. kMaxCqEntries. Not concurrent with Poll.
  Status Resize(uint32_t capacity);
  // The same in two steps. PrepareRoom, which copies the most, may run while another thread pushes,
  // so it needs no lock of the engine. No Poll, Purge or Resize may come between the two.
  struct Room {
    uint32_t capacity = 0;
    uint64_t copied = 0;  // completions before this number are in the ring
    std::unique_ptr<Completion[]> ring;
    std::unique_ptr<Time[]> times;  // of a timed queue
  };
  Status PrepareRoom(uint32_t capacity, Room& room) const;
  // Afterwards `room` holds the old memory of the queue.
  Status MoveTo(Room& room);

  uint32_t capacity() const { return capacity_; }
  bool empty() const;
  bool in_error() const { return in_error_; }

 private:
  void OnDeadline(Time now) override;
  // `count` completions, from number `first` on, call for an event.
  void CallForEvent(uint64_t first, uint64_t count);
  void Announce(uint64_t number);
  // The queue's share of QueueClock::users.
  uint32_t ClockUses() const {
    return (times_ != nullptr ? 1u : 0u) + (moderation_.is_on() ? 1u : 0u);
  }
  void Disarm();
  void OnUnpolled(Time now);
  void CopyTo(Room& room) const;

  EventQueue* events_;
  uint32_t capacity_;
  uint32_t mask_;  // ring size - 1; the ring is the next power of two
  std::unique_ptr<Completion[]> ring_;
  std::unique_ptr<Time[]> times_;  // of the same size; null: not timed
  QueueClock* clock_;
  Moderation moderation_{};
  uint64_t held_ = 0;       // completions whose event is held back
  uint64_t held_from_ = 0;  // the number of the first of them
  NotifyOn notify_on_ = NotifyOn::kNothing;
  bool in_error_ = false;
  bool ignores_overrun_ = false;
  // Completions are numbered in the order they are pushed. An event has announced those before
  // `announced_`. The youngest solicited one is the last before `solicited_`.
  uint64_t announced_ = 0;
  uint64_t solicited_ = 0;
  // The oldest completion in the queue when the last event was raised. While it is still there the
  // program has not polled since, and the event announces all that has come.
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t oldest_at_event_ = kNone;
  uint64_t leftovers_until_ = 0;  // leftovers are before this number; 0: none are watched
  uint64_t polled_until_ = 0;     // as seen when the leftovers were last looked at
  alignas(64) std::atomic<uint64_t> produced_{0};
  alignas(64) std::atomic<uint64_t> consumed_{0};
  // Completions before this number were in the queue when it was armed, and had been announced.
  std::atomic<uint64_t> announced_when_armed_{0};
};

}  // namespace uroce::transport
