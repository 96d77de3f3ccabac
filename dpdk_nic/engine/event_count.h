#pragma once

#include <atomic>
#include <cstdint>

#include "transport/time.h"

namespace uroce::nic {

// An event count over a futex: threads sleep until an event has happened since they looked. While
// no thread waits, Wake costs one load.
class EventCount {
 public:
  // Counts its thread as a waiter while it lives.
  class Waiter {
   public:
    explicit Waiter(EventCount& events) : events_(events) { events_.waiters_.fetch_add(1); }
    ~Waiter() { events_.waiters_.fetch_sub(1); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    EventCount& events_;
  };

  bool has_waiters() const { return waiters_.load(std::memory_order_relaxed) != 0; }

  // To be read before the thread looks whether the awaited event has happened.
  uint32_t now() const { return count_.load(std::memory_order_relaxed); }
  // Sleeps until an event has happened since `seen` or `until` has come. May return earlier.
  void Wait(uint32_t seen, transport::Time until);

  // Counts an event. Call Wake afterwards, without a lock that the waiters take.
  void Count() { count_.fetch_add(1, std::memory_order_seq_cst); }
  void Wake() {
    if (has_waiters()) [[unlikely]]
      WakeAll();
  }

 private:
  void WakeAll();

  std::atomic<uint32_t> count_{0};  // the futex
  std::atomic<uint32_t> waiters_{0};
};

}  // namespace uroce::nic
