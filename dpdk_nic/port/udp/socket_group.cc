#include "dpdk_nic/port/udp/socket_group.h"

#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "dpdk_nic/port/udp/port_holders.h"
#include "dpdk_nic/port/udp/steering_program.h"

namespace uroce::nic {

using transport::Time;

SocketGroup::SocketGroup(const UdpSocket& own) : own_fd_(own.fd()), address_(own.address()) {
  for (size_t i = 0; i < own.sockets_before(); ++i) {
    places_.push_back({.kind = Kind::kOrphan});
  }
  places_.push_back({.kind = Kind::kOwn});
  Steer();
}

int SocketGroup::Add(Time now, uint32_t block) {
  FollowOrphans();  // before the last place is another
  auto opened = UdpSocket::Open(address_, UdpSocket::Use::kMemberOfGroup);
  if (!opened.ok()) return -1;
  Remove(now, block);
  places_.push_back({.socket = std::move(opened).value(), .block = block});
  Steer();
  return places_.back().socket->fd();
}

void SocketGroup::Remove(Time now, uint32_t block) {
  for (Place& place : places_) {
    if (place.kind != Kind::kMember || place.block != block) continue;
    place.block = kNone;
    place.closes_at = now + kClosingTime;
    any_closes_ = true;
  }
  if (any_closes_) Steer();
}

void SocketGroup::Serve(Time now) {
  if (any_closes_) CloseMembers(now);
  if (orphans() == 0 || now < look_again_) return;
  look_again_ = now + kLookAgain;
  FollowOrphans();
}

void SocketGroup::CloseMembers(Time now) {
  any_closes_ = false;
  bool any_closed = false;
  for (size_t i = 0; i < places_.size();) {
    const bool closes = places_[i].kind == Kind::kMember && places_[i].block == kNone;
    if (!closes || now < places_[i].closes_at) {
      any_closes_ |= closes;
      ++i;
      continue;
    }
    TakeAway(i);
    any_closed = true;
  }
  if (any_closed) Steer();
}

void SocketGroup::TakeAway(size_t index) {
  if (index + 1 != places_.size()) places_[index] = std::move(places_.back());  // closes it
  places_.pop_back();
}

size_t SocketGroup::orphans() const {
  return static_cast<size_t>(std::count_if(places_.begin(), places_.end(), [](const Place& place) {
    return place.kind == Kind::kOrphan;
  }));
}

// If one of several is closed, its index is not known: the first of them is taken for it.
void SocketGroup::FollowOrphans() {
  if (orphans() == 0) return;
  const size_t left = CountSocketsAtPort(address_);
  const size_t before = places_.size();
  while (places_.size() > std::max<size_t>(left, 1) && orphans() != 0) {
    const bool is_guessed = orphans() > 1;
    const auto orphan = std::find_if(places_.begin(), places_.end(), [](const Place& place) {
      return place.kind == Kind::kOrphan;
    });
    const auto index = static_cast<size_t>(orphan - places_.begin());
    TakeAway(index);
    if (index < places_.size()) places_[index].is_guessed = is_guessed;
  }
  // None is left that could stand at the place of another.
  if (orphans() == 0) {
    for (Place& place : places_) place.is_guessed = false;
  }
  if (places_.size() != before) Steer();
}

// If the kernel has no memory for the program, the one before stays.
void SocketGroup::Steer() const {
  std::vector<SteeredBlock> blocks;
  uint32_t own = 0;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.kind == Kind::kOwn) own = i;
    const bool is_steered =
        place.kind == Kind::kMember && place.block != kNone && !place.is_guessed;
    if (is_steered) blocks.push_back({place.block, i});
  }
  std::vector<sock_filter> filters = MakeSteeringProgram(std::move(blocks), own);
  const sock_fprog program = {.len = static_cast<unsigned short>(filters.size()),
                              .filter = filters.data()};
  setsockopt(own_fd_, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}

}  // namespace uroce::nic
