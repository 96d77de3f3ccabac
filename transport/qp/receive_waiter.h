#pragma once

namespace uroce::transport {

// A queue pair that refused a message for want of a receive request of a shared queue, and waits
// for one. It is in one list at a time, and leaves it when it is destroyed.
class ReceiveWaiter {
 public:
  ReceiveWaiter() = default;
  virtual ~ReceiveWaiter() { Leave(); }
  ReceiveWaiter(const ReceiveWaiter&) = delete;
  ReceiveWaiter& operator=(const ReceiveWaiter&) = delete;

  // A request was posted. False if the queue pair does not wait for one any more.
  virtual bool OnReceivePosted() = 0;

 private:
  friend class ReceiveWaiters;
  void Leave() {
    next_->previous_ = previous_;
    previous_->next_ = next_;
    previous_ = next_ = this;
  }

  ReceiveWaiter* previous_ = this;  // alone: a ring of one
  ReceiveWaiter* next_ = this;
};

// The queue pairs that wait for a request of one shared queue, oldest first.
class ReceiveWaiters {
 public:
  ~ReceiveWaiters() {
    while (!empty()) head_.next_->Leave();
  }

  bool empty() const { return head_.next_ == &head_; }
  // Puts `waiter` at the end, whichever list it was in.
  void Add(ReceiveWaiter& waiter) {
    waiter.Leave();
    waiter.previous_ = head_.previous_;
    waiter.next_ = &head_;
    head_.previous_->next_ = &waiter;
    head_.previous_ = &waiter;
  }
  // One request was posted: the oldest that still waits is told, and leaves.
  void TellFirst() {
    while (!empty()) {
      ReceiveWaiter& first = *head_.next_;
      first.Leave();
      if (first.OnReceivePosted()) return;
    }
  }

 private:
  struct Head : ReceiveWaiter {
    bool OnReceivePosted() override { return false; }
  };
  Head head_;
};

}  // namespace uroce::transport
