// The multicast groups of a port.
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "dpdk_nic/port/udp/udp_port.h"

namespace uroce::nic {

using transport::Gid;

// A socket that is bound to one address receives nothing else, so each group has its own socket.
PacketPort::PathState UdpPort::JoinGroup(const Gid& group) {
  if (IsGroupOfThisHost(group)) return PathState::kReady;
  using Receivers = GroupMemberships::Receivers;
  const auto takes_all = [&](const UdpSocket& socket) {
    return IsWildcard(socket.gid()) && socket.gid().IsIpv4Mapped() == group.IsIpv4Mapped();
  };
  const bool is_received = std::any_of(receiving().begin(), receiving().end(),
                                       [&](const auto& s) { return takes_all(s); });
  const size_t sockets_before = groups_.sockets().size();
  int error = groups_.Join(group, is_received ? Receivers::kOfAllAddresses : Receivers::kOfTheGroup,
                           addresses_);
  const bool has_socket = groups_.sockets().size() != sockets_before;
  if (error == 0 && has_socket && !Watch(groups_.sockets().back())) {
    error = errno;
    groups_.Leave(group);
  }
  if (error == 0) return PathState::kReady;
  notice_ = {.sentence = GroupMemberships::Explain(group, error), .about = group};
  return PathState::kRefused;
}

void UdpPort::LeaveGroup(const Gid& group) {
  for (const UdpSocket& socket : groups_.sockets()) {
    // Not left to close(): a child between fork and exec may hold the descriptor a little longer.
    if (socket.gid() == group) epoll_ctl(wait_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
  }
  groups_.Leave(group);
}

void UdpPort::FollowGroups() {
  const size_t sockets_before = groups_.sockets().size();
  groups_.Follow(addresses_);
  for (size_t i = sockets_before; i < groups_.sockets().size(); ++i) Watch(groups_.sockets()[i]);
}

void UdpPort::KeepGroupsFromThisHost() {
  for (const UdpSocket& socket : sockets_) socket.KeepGroupsFromThisHost();
}

}  // namespace uroce::nic
