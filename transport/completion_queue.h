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
// for the engine. Everything else is called under the engine's lock. Who polls one queue from
// several threads serialises them (ibv_poll_cq does).
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

  // Raises EventType::kCompletion once, for the next completion that `on` covers; completions that
  // are there already do not count. A solicited request does not weaken an earlier one for any
  // (IBA C11-31).
  void Arm(NotifyOn on);

  // New room for `capacity` completions; what is in the queue stays. kInvalidArgument if more than
  // that is in the queue or it is not 1 .. kMaxCqEntries. Not concurrent with Poll.
  Status Resize(uint32_t capacity);

  uint32_t capacity() const { return capacity_; }
  bool empty() const;
  bool in_error() const { return in_error_; }

 private:
  EventQueue& events_;
  uint32_t capacity_;
  uint32_t mask_;  // ring size - 1; the ring is the next power of two
  std::unique_ptr<Completion[]> ring_;
  NotifyOn notify_on_ = NotifyOn::kNothing;
  bool in_error_ = false;
  alignas(64) std::atomic<uint32_t> produced_{0};  // both count without end and wrap at 2^32
  alignas(64) std::atomic<uint32_t> consumed_{0};
};

}  // namespace uroce::transport
