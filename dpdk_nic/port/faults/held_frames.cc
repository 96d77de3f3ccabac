#include "dpdk_nic/port/faults/held_frames.h"

#include <algorithm>
#include <utility>

namespace uroce::nic {

using transport::Time;

void HeldFrames::Hold(Frame frame, Time due, uint32_t others_to_pass) {
  held_.push_back({next_number_++, due, others_to_pass, std::move(frame)});
}

Time HeldFrames::NextDue() const {
  Time next = transport::kNever;
  for (const Entry& entry : held_) next = std::min(next, entry.due);
  return next;
}

std::optional<transport::Route> HeldFrames::NextRoute(Time now) const {
  const auto due = std::find_if(held_.begin(), held_.end(),
                                [now](const Entry& entry) { return entry.due <= now; });
  if (due == held_.end()) return std::nullopt;
  return due->frame.route;
}

std::optional<HeldFrames::Frame> HeldFrames::TakeDue(Time now) {
  const auto due = std::find_if(held_.begin(), held_.end(),
                                [now](const Entry& entry) { return entry.due <= now; });
  if (due == held_.end()) return std::nullopt;
  const uint64_t number = due->number;
  Frame frame = std::move(due->frame);
  held_.erase(due);
  CountPassing(number);
  return frame;
}

void HeldFrames::CountPassing(uint64_t number) {
  for (Entry& entry : held_) {
    if (entry.number > number || entry.others_to_pass == 0) continue;
    if (--entry.others_to_pass == 0) entry.due = Time{};
  }
}

}  // namespace uroce::nic
