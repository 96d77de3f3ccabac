#include "dpdk_nic/port/fabric/polled_links.h"

#include <sys/eventfd.h>

#include "dpdk_nic/base/clock.h"

namespace uroce::nic {
namespace {

using transport::Duration;
using transport::Milliseconds;
using transport::Time;

// A link without a frame for so long is idle.
constexpr Duration kIdle = Milliseconds(10);

}  // namespace

PolledLinks::PolledLinks() : wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // So that nothing allocates later.
  active_.reserve(places_.size());
  idle_.reserve(places_.size());
}

void PolledLinks::Add(Route route, RingLink& ring, Time now) {
  PlaceOf(route) = {.is_active = true, .used_at = now};
  AddTo(active_, {&ring, route});
}

void PolledLinks::Remove(Route route) {
  Place& place = PlaceOf(route);
  const Polled polled = RemoveFrom(place.is_active ? active_ : idle_, route);
  place.is_active = false;
  if (receiving_ == polled.ring) receiving_ = nullptr;
}

void PolledLinks::Activate(Route route) {
  Place& place = PlaceOf(route);
  if (place.is_active) return;
  place.is_active = true;
  place.used_at = Now();
  AddTo(active_, RemoveFrom(idle_, route));
}

void PolledLinks::Deactivate(Route route) {
  PlaceOf(route).is_active = false;
  AddTo(idle_, RemoveFrom(active_, route));
}

bool PolledLinks::IsUnused(Route route, Time now) {
  Place& place = PlaceOf(route);
  RingLink& ring = *active_[place.index].ring;
  const uint64_t frames = ring.frames();
  // After a sleep the frame that ended it may not have been received yet.
  const bool is_used = frames != place.frames || !ring.Receive().empty();
  if (is_used) {
    place.frames = frames;
    place.used_at = now;
  }
  return now - place.used_at >= kIdle;
}

void PolledLinks::BeginReceiveBurst() {
  ++turn_;  // a link that always has more does not keep the others waiting
  if (idle_.empty()) return;
  if (++idle_turn_ >= idle_.size()) idle_turn_ = 0;
  const Polled& polled = idle_[idle_turn_];
  if (!polled.ring->Receive().empty()) Activate(polled.route);
}

bool PolledLinks::BeginSleep() {
  for (const std::vector<Polled>* list : {&active_, &idle_}) {
    for (const Polled& polled : *list) {
      if (polled.ring->BeginSleep()) continue;
      Activate(polled.route);
      EndSleep();
      return false;
    }
  }
  is_asleep_ = true;
  return true;
}

void PolledLinks::EndSleep() {
  is_asleep_ = false;
  for (const Polled& polled : active_) polled.ring->EndSleep();
  for (const Polled& polled : idle_) polled.ring->EndSleep();
}

void PolledLinks::DrainWakeup() {
  if (is_asleep_) return;
  eventfd_t wakeups;
  [[maybe_unused]] const int result = eventfd_read(wakeup_.get(), &wakeups);
}

void PolledLinks::Wakeup() {
  // Fails only if the counter is full: then the eventfd is readable already.
  [[maybe_unused]] const int result = eventfd_write(wakeup_.get(), 1);
}

void PolledLinks::AddTo(std::vector<Polled>& list, const Polled& polled) {
  PlaceOf(polled.route).index = static_cast<uint32_t>(list.size());
  list.push_back(polled);
}

PolledLinks::Polled PolledLinks::RemoveFrom(std::vector<Polled>& list, Route route) {
  const uint32_t index = PlaceOf(route).index;
  const Polled removed = list[index];
  list[index] = list.back();
  PlaceOf(list[index].route).index = index;
  list.pop_back();
  return removed;
}

}  // namespace uroce::nic
