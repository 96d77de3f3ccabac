#include "tests/dpdk_nic/engine/drive_simulation/machine.h"

namespace uroce::nic::simulation {

void Thread::Wake() {
  if (state_ != State::kSleeps) {
    wake_pending_ = true;
    return;
  }
  machine_.WakeUp(*this, /*is_woken=*/true);
}

Thread& Machine::Start(size_t processor, Thread::Body body) {
  threads_.push_back(std::unique_ptr<Thread>(new Thread(*this, std::move(body), processor)));
  processors_[processor].queue.push_back(threads_.back().get());
  return *threads_.back();
}

void Machine::RunUntil(Time end) {
  while (now_ < end) {
    for (Processor& processor : processors_) Dispatch(processor);
    const Time next = NextEvent(end);
    const Duration passed = next - now_;
    for (Processor& processor : processors_) {
      if (processor.running == nullptr) continue;
      processor.running->work_ = processor.running->work_ - passed;
      processor.running->used_ = processor.running->used_ + passed;
    }
    now_ = next;
    while (!timers_.empty() && timers_.begin()->first <= now_) {
      const auto f = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      f();
    }
    for (Processor& processor : processors_) {
      if (processor.running != nullptr && processor.running->work_.ns <= 0) Resume(processor);
    }
  }
}

Time Machine::NextEvent(Time end) const {
  Time next = end;
  if (!timers_.empty()) next = std::min(next, timers_.begin()->first);
  for (const Processor& processor : processors_) {
    if (processor.running == nullptr) continue;
    next = std::min(next, now_ + processor.running->work_);
    if (!processor.queue.empty()) next = std::min(next, processor.slice_end);
  }
  return std::max(next, now_);
}

// Frozen threads stay in their queue and are passed over.
void Machine::Dispatch(Processor& processor) {
  Thread* const running = processor.running;
  const auto ready = std::find_if(processor.queue.begin(), processor.queue.end(),
                                  [](const Thread* thread) { return !thread->is_frozen_; });
  const bool is_over = running != nullptr && (running->is_frozen_ || now_ >= processor.slice_end);
  if (running != nullptr && !is_over) return;
  if (ready == processor.queue.end()) {
    if (running == nullptr) return;
    if (!running->is_frozen_) {
      processor.slice_end = now_ + kSlice;
      return;
    }
    processor.running = nullptr;
    processor.queue.push_back(running);
    return;
  }
  processor.running = *ready;
  processor.queue.erase(ready);
  if (running != nullptr) processor.queue.push_back(running);
  processor.slice_end = now_ + kSlice;
}

void Machine::Resume(Processor& processor) {
  Thread& thread = *processor.running;
  thread.state_ = Thread::State::kDone;  // unless it suspends
  thread.resume_at_.resume();
  switch (thread.state_) {
    case Thread::State::kRunnable:
      break;
    case Thread::State::kYields:
      thread.work_ = kYieldToNoOther;
      if (std::any_of(processor.queue.begin(), processor.queue.end(),
                      [](const Thread* other) { return !other->is_frozen_; })) {
        processor.running = nullptr;
        processor.queue.push_back(&thread);
      }
      break;
    case Thread::State::kSleeps:
      processor.running = nullptr;
      PutToSleep(thread);
      break;
    case Thread::State::kDone:
      processor.running = nullptr;
      break;
  }
}

void Machine::PutToSleep(Thread& thread) {
  const uint64_t number = ++thread.sleep_number_;
  if (std::exchange(thread.wake_pending_, false)) return WakeUp(thread, true);
  if (thread.until_ == transport::kNever) return;
  At(std::max(thread.until_, now_), [this, &thread, number] {
    const bool sleeps = thread.state_ == Thread::State::kSleeps && thread.sleep_number_ == number;
    if (sleeps) WakeUp(thread, /*is_woken=*/false);
  });
}

// The scheduler gives a thread that wakes up an idle processor if there is one, and otherwise its
// own before the thread that runs there.
void Machine::WakeUp(Thread& thread, bool is_woken) {
  thread.state_ = Thread::State::kRunnable;
  thread.was_woken_ = is_woken;
  At(now_ + kWakeup, [this, &thread] {
    thread.work_ = kWakeup;
    for (size_t i = 0; i < processors_.size(); ++i) {
      const size_t place = (thread.processor_ + i) % processors_.size();
      if (processors_[place].running != nullptr || !processors_[place].queue.empty()) continue;
      thread.processor_ = place;
      break;
    }
    Processor& processor = processors_[thread.processor_];
    processor.queue.push_front(&thread);
    processor.slice_end = now_;
  });
}

}  // namespace uroce::nic::simulation
