#include "dpdk_nic/switch/uplinks.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace uroce::nic {
namespace {

using control::Block;
using control::ErrnoValue;
using transport::Time;

// Sockets with news that one look reads; the next look reads further ones.
constexpr int kEvents = 64;

}  // namespace

Uplinks::Uplinks() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll");
  polled_.reserve(uplinks_.size());  // frames move without allocating
}

ErrnoValue Uplinks::Connect(Time now, Block block, std::unique_ptr<RingLink> link) {
  Close(block);
  epoll_event event = {.events = EPOLLIN, .data = {.u32 = block}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, link->socket(), &event) != 0) return errno;
  uplinks_[block] = std::make_unique<Uplink>();
  Uplink& uplink = *uplinks_[block];
  uplink.block = block;
  uplink.link = std::move(link);
  Use(now, uplink);
  return 0;
}

void Uplinks::Close(Block block) {
  Uplink* uplink = Find(block);
  if (uplink == nullptr) return;
  if (uplink->is_polled) std::erase(polled_, uplink);
  // Not left to the closing of the socket: the process may still hold a copy of this end.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, uplink->link->socket(), nullptr);
  uplinks_[block].reset();
}

void Uplinks::Use(Time now, Uplink& uplink) {
  uplink.last_used = now;
  if (uplink.is_polled) return;
  uplink.is_polled = true;
  uplink.link->EndSleep();
  polled_.push_back(&uplink);
}

void Uplinks::PollSockets(Time now) {
  std::array<epoll_event, kEvents> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), kEvents, 0);
  for (int i = 0; i < ready; ++i) {
    Uplink* uplink = Find(events[static_cast<size_t>(i)].data.u32);
    if (uplink == nullptr) continue;
    if (!uplink->link->peer_alive()) {
      uplink->has_ended = true;
      // The end of the socket would be news for ever.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, uplink->link->socket(), nullptr);
    }
    Use(now, *uplink);
  }
}

void Uplinks::CloseDone() {
  for (size_t i = polled_.size(); i-- > 0;) {
    if (polled_[i]->is_done) Close(polled_[i]->block);
  }
}

void Uplinks::ParkIdle(Time now) {
  for (size_t i = polled_.size(); i-- > 0;) {
    if (now - polled_[i]->last_used >= kIdleTime) Park(i);
  }
}

bool Uplinks::ParkAll() {
  bool all = true;
  for (size_t i = polled_.size(); i-- > 0;) all &= Park(i);
  return all;
}

// An ended uplink is polled until it is empty: its process sends no wakeup any more. Nor does a
// process that makes room for waiting messages.
bool Uplinks::Park(size_t index) {
  Uplink& uplink = *polled_[index];
  uplink.link->WakePeerIfBehind();
  if (uplink.has_ended || !uplink.messages.empty() || !uplink.link->BeginSleep()) return false;
  uplink.is_polled = false;
  polled_.erase(polled_.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

}  // namespace uroce::nic
