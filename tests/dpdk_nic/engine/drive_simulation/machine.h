#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/time.h"

// A machine in virtual time: processors, and threads that are coroutines. It shows what the drive
// policies do to programs, repeatably.
namespace uroce::nic::simulation {

using transport::Duration;
using transport::Time;

// A coroutine that a thread calls with co_await. It may suspend the thread.
template <class T>
class Task;

namespace internal {

struct PromiseBase {
  std::coroutine_handle<> caller;

  struct Final {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> done) noexcept {
      return done.promise().caller ? done.promise().caller : std::noop_coroutine();
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() { return {}; }
  Final final_suspend() noexcept { return {}; }
  void unhandled_exception() { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  T value{};
  Task<T> get_return_object();
  void return_value(T result) { value = result; }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
};

}  // namespace internal

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().caller = caller;
    return handle_;
  }
  T await_resume() {
    if constexpr (!std::is_void_v<T>) return handle_.promise().value;
  }

  Handle handle() const { return handle_; }

 private:
  Handle handle_;
};

namespace internal {
template <class T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace internal

class Machine;

// A thread of a process. The functions that suspend are for its own coroutine.
class Thread {
 public:
  using Body = std::function<Task<void>(Thread&)>;

  // Uses the processor for `span`.
  auto Work(Duration span) { return Suspend(State::kRunnable, span, {}); }
  // Gives the processor to another thread that wants it.
  auto Yield() { return Suspend(State::kYields, Duration{}, {}); }
  // Leaves the processor until `until`, or until Wake.
  auto SleepUntil(Time until) { return Suspend(State::kSleeps, Duration{}, until); }

  // Ends a sleep, or the next one. Any thread.
  void Wake();
  // Whether Wake ended the last sleep.
  bool was_woken() const { return was_woken_; }
  // Processor time so far.
  Duration used() const { return used_; }

 private:
  friend class Machine;
  enum class State : uint8_t { kRunnable, kYields, kSleeps, kDone };

  struct Awaitable {
    Thread& thread;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> where) { thread.resume_at_ = where; }
    void await_resume() const {}
  };
  Awaitable Suspend(State state, Duration work, Time until) {
    state_ = state;
    work_ = work;
    until_ = until;
    return {*this};
  }

  Thread(Machine& machine, Body body, size_t processor)
      : machine_(machine), body_(std::move(body)), main_(body_(*this)), processor_(processor) {
    resume_at_ = main_.handle();
  }

  Machine& machine_;
  const Body body_;  // lives as long as its coroutine
  const Task<void> main_;
  size_t processor_;
  std::coroutine_handle<> resume_at_;
  State state_ = State::kRunnable;
  Duration work_;
  Time until_;
  Duration used_;
  uint64_t sleep_number_ = 0;
  bool wake_pending_ = false;
  bool was_woken_ = false;
  bool is_frozen_ = false;
};

class Machine {
 public:
  // A sleeping thread runs so long after it was woken, and then has used the processor for as long.
  static constexpr Duration kWakeup = transport::Microseconds(10);
  static constexpr Duration kSlice = transport::Milliseconds(3);
  static constexpr Duration kYieldToNoOther{300};

  explicit Machine(size_t processors) : processors_(processors) {}

  // Starts a thread. It may move to an idle processor when it wakes up.
  Thread& Start(size_t processor, Thread::Body body);

  Time now() const { return now_; }
  // Calls `f` at `when`.
  void At(Time when, std::function<void()> f) { timers_.emplace(when, std::move(f)); }
  void RunUntil(Time end);
  // SIGSTOP and SIGCONT for a thread.
  void Freeze(Thread& thread) { thread.is_frozen_ = true; }
  void Thaw(Thread& thread) { thread.is_frozen_ = false; }

 private:
  friend class Thread;
  struct Processor {
    Thread* running = nullptr;
    std::deque<Thread*> queue;
    Time slice_end;
  };

  void Dispatch(Processor& processor);
  void Resume(Processor& processor);
  void WakeUp(Thread& thread, bool is_woken);
  void PutToSleep(Thread& thread);
  Time NextEvent(Time end) const;

  Time now_{1'000'000'000};
  std::vector<Processor> processors_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::multimap<Time, std::function<void()>> timers_;
};

}  // namespace uroce::nic::simulation
