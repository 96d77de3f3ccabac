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

PolledLinks::PolledLinks(LinkSet& links)
    : links_(links), wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  // So that nothing allocates later.
  active_.reserve(transport::kRoutes);
  idle_.reserve(transport::kRoutes);
}

void PolledLinks::Add(Route route, Time now) {
  Link& link = links_[route];
  link.is_active = true;
  link.frames = 0;
  link.used_at = now;
  AddTo(active_, {link.ring.get(), route});
}

void PolledLinks::Remove(Route route) {
  Link& link = links_[route];
  const Polled polled = RemoveFrom(link.is_active ? active_ : idle_, route);
  link.is_active = false;
  if (receiving_ == polled.ring) receiving_ = nullptr;
}

void PolledLinks::Activate(Route route) {
  Link& link = links_[route];
  if (link.is_active) return;
  link.is_active = true;
  link.used_at = Now();
  AddTo(active_, RemoveFrom(idle_, route));
}

void PolledLinks::Deactivate(Route route) {
  links_[route].is_active = false;
  AddTo(idle_, RemoveFrom(active_, route));
}

bool PolledLinks::IsUnused(Route route, Time now) {
  Link& link = links_[route];
  const uint64_t frames = link.ring->frames();
  // After a sleep the frame that ended it may not have been received yet.
  const bool is_used = frames != link.frames || !link.ring->Receive().empty();
  if (is_used) {
    link.frames = frames;
    link.used_at = now;
  }
  return now - link.used_at >= kIdle;
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
  links_[polled.route].place = static_cast<uint32_t>(list.size());
  list.push_back(polled);
}

PolledLinks::Polled PolledLinks::RemoveFrom(std::vector<Polled>& list, Route route) {
  const uint32_t index = links_[route].place;
  const Polled removed = list[index];
  list[index] = list.back();
  links_[list[index].route].place = index;
  list.pop_back();
  return removed;
}

}  // namespace uroce::nic
