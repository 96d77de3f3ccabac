#pragma once

#include <cstddef>
#include <vector>

#include "transport/time.h"

namespace uroce::transport {

// An object with at most one timer.
class DeadlineClient {
 public:
  virtual ~DeadlineClient() = default;
  // The deadline has passed; the client has none any more.
  virtual void OnDeadline(Time now) = 0;

 private:
  friend class DeadlineQueue;
  static constexpr size_t kNotQueued = static_cast<size_t>(-1);
  Time deadline_ = kNever;   // when the client wants to be called
  Time scheduled_ = kNever;  // its key in the heap, never later than deadline_; kNever if in none
  size_t heap_index_ = kNotQueued;
};

// The timers of all queue pairs: a binary heap with lazy postponement.
//
// A queue pair moves its timer to a later time at every acknowledgement, millions of times a
// second, and the timer almost never fires. So moving a deadline later only stores it; RunDue moves
// the client in the heap when the old time comes.
class DeadlineQueue {
 public:
  // Room for this many clients, so that Set never allocates.
  void Reserve(size_t clients) { heap_.reserve(clients); }

  // kNever cancels. A deadline already past is due at the next RunDue.
  void Set(DeadlineClient& client, Time deadline) {
    client.deadline_ = deadline;
    if (deadline < client.scheduled_) Advance(client, deadline);
  }
  void Remove(DeadlineClient& client);

  // Not later than the earliest deadline; kNever if nothing is queued.
  Time Next() const { return heap_.empty() ? kNever : heap_.front()->scheduled_; }

  // Calls OnDeadline of every client whose deadline is at or before `now`.
  void RunDue(Time now);

 private:
  void Advance(DeadlineClient& client, Time deadline);
  void Place(size_t index, DeadlineClient* client);
  void SiftUp(size_t index);
  void SiftDown(size_t index);

  std::vector<DeadlineClient*> heap_;
};

}  // namespace uroce::transport
