#include "tests/dpdk_nic/engine/drive_simulation/host.h"

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic::simulation {

using Do = ProgressPolicy::Do;
using Slept = ProgressPolicy::Slept;
using Step = ProgressPolicy::Step;

Host::Host(Machine& machine, size_t processor)
    : machine_(machine),
      progress_thread_(&machine.Start(processor, [this](Thread& self) { return Drive(self); })) {}

// As Engine::PostSend and FinishVerb. A request of one packet leaves in its verb.
Task<void> Host::Post(Thread& self) {
  while (is_locked_) co_await self.Work(kPauseCost);
  is_locked_ = true;
  co_await self.Work(kFrameCost);
  const bool awaits_answers = frames_.is_first_of_verb() && messages_.posted > messages_.completed;
  ++messages_.posted;
  Give({.kind = Kind::kMessage, .messages = 0, .arrived = {}});
  frames_.SentAtOnce(machine_.now(), awaits_answers);
  ++application_work_;
  co_await Flush(self, frames_.AfterVerb(machine_.now(), 1, is_watched_));
  if (frames_.IsPassDue()) co_await Pass(self, Driver::kApplication);
  EndVerb();
  co_await self.Work(kProgramCost);
}

Task<void> Host::Poll(Thread& self, PollPolicy& pause) {
  auto next = PollPolicy::Pause::kNone;
  application_work_ += drive::kWorkOfAPass;
  if (is_locked_) {
    next = pause.PollRefused(false);
  } else {
    is_locked_ = true;
    const bool has_worked = co_await Pass(self, Driver::kApplication);
    EndVerb();
    co_await self.Work(kProgramCost);
    if (has_worked) {
      pause.PollWorked();
      co_return;
    }
    next = pause.PollFailed(false);
  }
  if (next == PollPolicy::Pause::kNone) co_await self.Work(kPauseCost);
  co_await Pause(self, pause, next);
}

Task<void> Host::AwaitEvent(Thread& self) {
  const uint64_t before = messages_.completed + messages_.received;
  while (is_locked_) co_await self.Work(kPauseCost);
  is_locked_ = is_armed_ = true;
  waits_for_event_ = &self;
  co_await self.Work(kFrameCost);
  EndVerb();
  while (messages_.completed + messages_.received == before) {
    co_await self.SleepUntil(transport::kNever);
  }
}

Task<void> Host::Pause(Thread& self, PollPolicy& policy, PollPolicy::Pause pause) {
  if (pause == PollPolicy::Pause::kYield) {
    const Time before = machine_.now();
    co_await self.Yield();
    pause = policy.Yielded(before, machine_.now());
  }
  const bool sleeps = pause == PollPolicy::Pause::kMoment || pause == PollPolicy::Pause::kNap;
  if (sleeps) co_await self.SleepUntil(machine_.now() + transport::Microseconds(50));
}

// As PollLoop::Run.
Task<void> Host::Drive(Thread& self) {
  ProgressPolicy policy;
  PollPolicy pause;
  Step step = policy.Begin(machine_.now(), company());
  while (true) {
    switch (step.what) {
      case Do::kPass: {
        bool has_worked = false;
        if (is_locked_) {
          co_await self.Work(kPauseCost);
        } else {
          is_locked_ = true;
          has_worked = co_await Pass(self, Driver::kProgressThread);
          EndVerb();
        }
        if (has_worked) pause.PollWorked();
        const Time now = machine_.now();
        step = policy.AfterPass(now, has_worked, pause.IsHogged(now), company());
        break;
      }
      case Do::kPause: {
        const auto next = pause.PollFailed(false);
        if (next == PollPolicy::Pause::kNone) co_await self.Work(kPauseCost);
        co_await Pause(self, pause, next);
        step = policy.AfterPause();
        break;
      }
      case Do::kStandBy:
        is_watched_ = true;
        co_await self.SleepUntil(step.until);
        step = policy.AfterStandBy(machine_.now(), company());
        is_watched_ = step.what == Do::kStandBy;
        break;
      case Do::kSleep: {
        auto slept = Slept::kNone;
        const bool is_woken = co_await Sleep(self, step.until, slept);
        pause.PollWorked();
        step = policy.AfterSleep(machine_.now(), slept, is_woken, company());
        break;
      }
    }
  }
}

// As PollLoop::Sleep with Engine::PlanSleep: announces the sleep, then looks once more.
Task<bool> Host::Sleep(Thread& self, Time latest, Slept& slept) {
  while (is_locked_) co_await self.Work(kPauseCost);
  wakes_on_arrival_ = true;
  const bool may_sleep = arrived_.empty() && to_acknowledge_ == 0;
  slept = may_sleep ? Slept::kSleep : Slept::kNone;
  bool is_woken = true;
  if (may_sleep) {
    wakes_.SleepBegins(latest);
    co_await self.SleepUntil(latest);
    is_woken = self.was_woken();
    while (is_locked_) co_await self.Work(kPauseCost);
    wakes_.SleepEnds();
  }
  wakes_on_arrival_ = false;
  co_return is_woken;
}

// As Engine::RunOnce.
Task<bool> Host::Pass(Thread& self, Driver driver) {
  frames_.ReceiveBegins();
  const int received = Receive();
  co_await self.Work(kPassCost + kFrameCost * received);
  const Time now = machine_.now();
  const bool holds = frames_.HoldsAnswers(now, driver, received);
  const bool answers = !holds && to_acknowledge_ != 0;
  if (answers) {
    Give({.kind = Kind::kAck, .messages = to_acknowledge_, .arrived = {}});
    to_acknowledge_ = 0;
  }
  const bool has_sent = holds || answers;
  co_await Flush(self, frames_.AfterPass(now, driver, received != 0, has_sent, is_watched_));
  co_return received != 0 || has_sent;
}

int Host::Receive() {
  constexpr int kBurst = 64;
  int received = 0;
  for (; received < kBurst && !arrived_.empty(); ++received) {
    const Frame frame = arrived_.front();
    arrived_.pop_front();
    longest_unread_ = std::max(longest_unread_, machine_.now() - frame.arrived);
    if (frame.kind == Kind::kMessage) {
      ++messages_.received;
      ++to_acknowledge_;
    } else {
      messages_.completed += frame.messages;
    }
  }
  if (received != 0 && std::exchange(is_armed_, false)) waits_for_event_->Wake();
  return received;
}

void Host::Give(const Frame& frame) {
  unflushed_.push_back(frame);
  frames_.FrameGiven();
}

Task<void> Host::Flush(Thread& self, FramePolicy::Flush flush) {
  if (flush != FramePolicy::Flush::kNow || unflushed_.empty()) co_return;
  co_await self.Work(kFlushCost);
  ++flushes_;
  for (Frame frame : std::exchange(unflushed_, {})) {
    frame.arrived = machine_.now() + kFlight;
    machine_.At(frame.arrived, [peer = peer_, frame] { peer->Deliver(frame); });
  }
}

void Host::Deliver(const Frame& frame) {
  arrived_.push_back(frame);
  if (wakes_on_arrival_) progress_thread_->Wake();
}

// As Engine::UnlockAndWake.
void Host::EndVerb() {
  is_locked_ = false;
  const bool wakes = wakes_.Wakes({.has_frames = to_acknowledge_ != 0 || !unflushed_.empty(),
                                   .next_deadline = transport::kNever,
                                   .is_event_awaited = is_armed_,
                                   .is_watched = is_watched_});
  if (wakes) progress_thread_->Wake();
}

ProgressPolicy::Company Host::company() const {
  return {.application_work = application_work_,
          .application_waits = wakes_.application_waits(),
          .is_in_engine = is_locked_,
          .awaits_answer = false};
}

}  // namespace uroce::nic::simulation
