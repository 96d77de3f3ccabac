#include "dpdk_nic/port/udp/socket_group.h"

#include <sys/socket.h>

#include <utility>

#include "dpdk_nic/port/udp/steering_program.h"

namespace uroce::nic {

using transport::Time;

SocketGroup::SocketGroup(const UdpSocket& own) : own_fd_(own.fd()), address_(own.address()) {
  Steer();
}

int SocketGroup::Add(Time now, uint32_t block) {
  auto opened = UdpSocket::Open(address_, UdpSocket::Use::kMemberOfGroup);
  if (!opened.ok()) return -1;
  Remove(now, block);
  members_.push_back({std::move(opened).value(), block, {}});
  Steer();
  return members_.back().socket.fd();
}

void SocketGroup::Remove(Time now, uint32_t block) {
  for (Member& member : members_) {
    if (member.block != block) continue;
    member.block = kNone;
    member.closes_at = now + kClosingTime;
    any_closes_ = true;
  }
  if (any_closes_) Steer();
}

void SocketGroup::Serve(Time now) {
  if (!any_closes_) return;
  any_closes_ = false;
  bool any_closed = false;
  for (size_t i = 0; i < members_.size();) {
    const bool closes = members_[i].block == kNone;
    if (!closes || now < members_[i].closes_at) {
      any_closes_ |= closes;
      ++i;
      continue;
    }
    if (i + 1 != members_.size()) members_[i] = std::move(members_.back());  // closes it
    members_.pop_back();
    any_closed = true;
  }
  if (any_closed) Steer();
}

// If the kernel has no memory for the program, the one before stays.
void SocketGroup::Steer() const {
  std::vector<SteeredBlock> blocks;
  for (uint32_t i = 0; i < members_.size(); ++i) {
    if (members_[i].block != kNone) blocks.push_back({members_[i].block, i + 1});
  }
  std::vector<sock_filter> filters = MakeSteeringProgram(std::move(blocks));
  const sock_fprog program = {.len = static_cast<unsigned short>(filters.size()),
                              .filter = filters.data()};
  setsockopt(own_fd_, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program);
}

}  // namespace uroce::nic
