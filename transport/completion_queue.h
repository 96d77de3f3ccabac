#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/completion.h"
#include "transport/events.h"
#include "transport/status.h"

namespace uroce::transport {

// A completion queue: a ring with one producer, the transport, and one consumer at a time.
//
// Poll may run while another thread pushes, so an application that finds completions does not wait
// for the engine. Everything else is called under the engine's lock. Polls of one queue from
// several threads have to be serialised by the caller (ibv_poll_cq does).
class CompletionQueue : public EventSource {
 public:
  enum class NotifyOn : uint8_t { kNothing, kSolicited, kAny };

  // Room for at least `capacity` completions, 1 .. kMaxCqEntries.
  CompletionQueue(uint32_t capacity, EventQueue& events, void* context);

  // Adds a completion. A full queue loses it, and is in error from then on (IBA 11.6.3.2 CQ_ERR):
  // the completions already there stay pollable, and none is added any more.
  // Returns false if the completion was lost.
  bool Push(const Completion& completion, bool solicited);

  // Moves up to out.size() completions, oldest first, into `out`; returns how many.
  uint32_t Poll(std::span<Completion> out);

  // Raises EventType::kCompletion once, for the next completion that `on` covers: at once if one is
  // in the queue that no event has announced, as NICs do. So a program that finds the queue empty,
  // arms it and sleeps misses nothing; one that takes an event, arms and then polls sees no second
  // event for the same completions. A solicited request does not weaken an earlier one for any
  // (IBA C11-31).
  void Arm(NotifyOn on);

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
  };
  Status PrepareRoom(uint32_t capacity, Room& room) const;
  // Afterwards `room` is what the queue had before.
  Status MoveTo(Room& room);

  uint32_t capacity() const { return capacity_; }
  bool empty() const;
  bool in_error() const { return in_error_; }

 private:
  void Announce();
  void CopyTo(Room& room) const;

  EventQueue& events_;
  uint32_t capacity_;
  uint32_t mask_;  // ring size - 1; the ring is the next power of two
  std::unique_ptr<Completion[]> ring_;
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
