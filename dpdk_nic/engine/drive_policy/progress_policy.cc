#include "dpdk_nic/engine/drive_policy/progress_policy.h"

#include <algorithm>
#include <utility>

#include "dpdk_nic/engine/drive_policy/limits.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Time;
using Step = ProgressPolicy::Step;

uint64_t LeastWorkIn(Duration span) {
  return drive::kWorkAMillisecond * static_cast<uint64_t>(span.ns) /
         static_cast<uint64_t>(transport::Milliseconds(1).ns);
}

}  // namespace

Step ProgressPolicy::Begin(Time now, const Company& company) {
  nap_ = drive::kShortestNap;
  return BeginPolling(now, /*is_woken=*/true, company);
}

Step ProgressPolicy::BeginPolling(Time now, bool is_woken, const Company& company) {
  gives_up_at_ = is_woken ? now + drive::kSpin : Time{0};
  work_seen_ = company.application_work;
  return {Do::kPass};
}

Step ProgressPolicy::AfterPass(Time now, bool has_worked, bool is_hogged, const Company& company) {
  lingers_ |= has_worked;
  const bool is_driven =
      company.application_work - work_before_ >= drive::kWorkThatDrives && now >= not_before_;
  if (is_driven && !company.application_waits) return BeginStandBy(now, company);
  if (has_worked) {
    gives_up_at_ = now + drive::kSpin;
    nap_ = drive::kShortestNap;
    return {Do::kPass};
  }
  if (now >= gives_up_at_) return BeginSleep(now);
  // A sleeping thread gets a hogged processor back as soon as there is something to do. Not so if
  // it is an application that drives: there would be nothing to do.
  if (is_hogged) {
    const uint64_t before = std::exchange(work_seen_, company.application_work);
    if (work_seen_ == before) return BeginSleep(now);
  }
  return {Do::kPause};
}

Step ProgressPolicy::BeginStandBy(Time now, const Company& company) {
  began_at_ = looked_at_ = now;
  work_at_look_ = company.application_work;
  was_in_engine_ = false;
  next_look_ = drive::kFirstLook;
  return {Do::kStandBy, looked_at_ + next_look_};
}

Step ProgressPolicy::AfterStandBy(Time now, const Company& company) {
  const bool still_drives = StillDrives(now, company);
  if (still_drives && !company.awaits_answer && !company.application_waits) {
    return {Do::kStandBy, looked_at_ + next_look_};
  }
  work_before_ = company.application_work;
  lingers_ = true;
  return BeginSleep(now);
}

bool ProgressPolicy::StillDrives(Time now, const Company& company) {
  const Duration elapsed = now - looked_at_;
  if (elapsed < drive::kFirstLook) return true;  // something else woke the thread
  const uint64_t done = company.application_work - work_at_look_;
  const bool has_stopped = done == 0;
  const bool works_enough =
      next_look_ < drive::kLongestLook ? !has_stopped : done >= LeastWorkIn(elapsed);
  // A pass or a verb counts as work when it ends, and over a slow port it takes longer than a look.
  // One look may fall into a short verb.
  const bool is_long_in_engine = company.is_in_engine && (has_stopped || was_in_engine_);
  looked_at_ = now;
  work_at_look_ = company.application_work;
  was_in_engine_ = company.is_in_engine;
  next_look_ = std::min(next_look_ * 2, drive::kLongestLook);
  if (works_enough || is_long_in_engine) return true;
  const bool is_proven = now - began_at_ >= drive::kProof;
  if (is_proven) {
    doubt_ = {};
  } else if (has_stopped) {
    doubt_ = std::clamp(doubt_ * 2, drive::kShortestDoubt, drive::kLongestDoubt);
    not_before_ = now + doubt_;
  }
  return false;
}

Step ProgressPolicy::BeginSleep(Time now) const {
  return {Do::kSleep, lingers_ ? now + drive::kLinger : transport::kNever};
}

Time ProgressPolicy::NapEnd(Time now) {
  const Duration nap = std::exchange(nap_, std::min(nap_ * 2, drive::kLongestNap));
  return now + nap;
}

Step ProgressPolicy::AfterSleep(Time now, Slept slept, bool is_woken, const Company& company) {
  if (slept == Slept::kSleep) lingers_ = is_woken;
  // Not after a wakeup: frames that the application takes may have caused it.
  if (!is_woken) work_before_ = company.application_work;
  return BeginPolling(now, is_woken, company);
}

}  // namespace uroce::nic
