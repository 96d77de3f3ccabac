#include "dpdk_nic/port/udp/group_memberships.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

namespace uroce::nic {
namespace {

using transport::Gid;

// Returns 0 or an errno value.
int ChangeMembership(int fd, const Gid& group, int interface_index, bool is_member) {
  int failed;
  if (group.IsIpv4Mapped()) {
    ip_mreqn request{};
    std::memcpy(&request.imr_multiaddr, group.bytes.data() + 12, sizeof request.imr_multiaddr);
    request.imr_ifindex = interface_index;
    failed = setsockopt(fd, IPPROTO_IP, is_member ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
                        &request, sizeof request);
  } else {
    ipv6_mreq request{};
    std::memcpy(&request.ipv6mr_multiaddr, group.bytes.data(), group.bytes.size());
    request.ipv6mr_interface = static_cast<unsigned>(interface_index);
    failed = setsockopt(fd, IPPROTO_IPV6, is_member ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, &request,
                        sizeof request);
  }
  return failed == 0 ? 0 : errno;
}

// The socket has reached net.ipv4.igmp_max_memberships, or the memory that it may use beside its
// buffers.
bool IsForWantOfRoom(int error) { return error == ENOBUFS || error == ENOMEM; }

std::set<int> InterfacesFor(bool is_ipv4, std::span<const HostAddress> addresses) {
  std::set<int> interfaces;
  for (const HostAddress& address : addresses) {
    if (address.gid.IsIpv4Mapped() == is_ipv4) interfaces.insert(address.interface_index);
  }
  return interfaces;
}

}  // namespace

size_t GroupMemberships::MaxGroups(Receivers receivers, std::span<const HostAddress> addresses) {
  const size_t interfaces =
      std::max(InterfacesFor(true, addresses).size(), InterfacesFor(false, addresses).size());
  const size_t groups = kMaxMemberships / std::max<size_t>(interfaces, 1);
  return receivers == Receivers::kOfTheGroup ? std::min(groups, kMaxSockets) : groups;
}

int GroupMemberships::Join(const Gid& group, Receivers receivers,
                           std::span<const HostAddress> addresses) {
  if (groups_.contains(group)) return 0;
  if (receivers == Receivers::kOfTheGroup && sockets_.size() == kMaxSockets) return ENOSPC;
  Group joined{.receivers = receivers, .memberships = {}};
  int error = 0;
  for (const int interface_index : InterfacesFor(group.IsIpv4Mapped(), addresses)) {
    error = JoinOn(group, &joined, interface_index, kMaxMemberships);
    if (error != 0) break;
  }
  groups_.emplace(group, std::move(joined));
  if (error != 0) Leave(group);
  return error;
}

int GroupMemberships::JoinOn(const Gid& group, Group* joined, int interface_index, size_t most) {
  if (memberships_ >= most) return ENOSPC;
  int error;
  if (joined->receivers == Receivers::kOfAllAddresses) {
    error = HoldOn(group, joined, interface_index);
  } else {
    auto own = std::find_if(sockets_.begin(), sockets_.end(),
                            [&](const UdpSocket& socket) { return socket.gid() == group; });
    if (own == sockets_.end()) {
      auto opened = UdpSocket::Open({.gid = group, .interface_index = interface_index},
                                    UdpSocket::Use::kMulticast);
      if (!opened.ok()) return EMFILE;
      sockets_.push_back(std::move(opened).value());
      own = sockets_.end() - 1;
    }
    error = ChangeMembership(own->fd(), group, interface_index, true);
    if (error == 0) joined->memberships.push_back({interface_index, own->fd()});
  }
  if (error == 0) ++memberships_;
  return error == ENODEV ? 0 : error;
}

// Joins by a holder that has room, or by a new one.
int GroupMemberships::HoldOn(const Gid& group, Group* joined, int interface_index) {
  const bool is_ipv4 = group.IsIpv4Mapped();
  const auto try_one = [&](Holder& holder) {
    const int error = ChangeMembership(holder.fd.get(), group, interface_index, true);
    holder.is_full = IsForWantOfRoom(error);
    if (error != 0) return error;
    ++holder.memberships;
    joined->memberships.push_back({interface_index, holder.fd.get()});
    return 0;
  };
  for (Holder& holder : holders_) {
    if (holder.is_full || holder.is_ipv4 != is_ipv4) continue;
    if (const int error = try_one(holder); !holder.is_full) return error;
  }
  UniqueFd fd(socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  holders_.push_back({.fd = std::move(fd), .is_ipv4 = is_ipv4});
  const int error = try_one(holders_.back());
  if (error != 0) holders_.pop_back();
  return error;
}

void GroupMemberships::Leave(const Gid& group) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  for (const Membership& membership : found->second.memberships) Drop(group, membership);
  CloseSocketOf(group);
  groups_.erase(found);
}

void GroupMemberships::Drop(const Gid& group, const Membership& membership) {
  ChangeMembership(membership.fd, group, membership.interface_index, false);
  --memberships_;
  for (Holder& holder : holders_) {
    if (holder.fd.get() != membership.fd) continue;
    holder.is_full = false;
    --holder.memberships;
  }
  std::erase_if(holders_, [](const Holder& holder) { return holder.memberships == 0; });
}

void GroupMemberships::CloseSocketOf(const Gid& group) {
  std::erase_if(sockets_, [&](const UdpSocket& socket) { return socket.gid() == group; });
}

void GroupMemberships::Follow(std::span<const HostAddress> addresses) {
  for (auto& [group, joined] : groups_) {
    std::set<int> interfaces = InterfacesFor(group.IsIpv4Mapped(), addresses);
    std::erase_if(joined.memberships, [&](const Membership& membership) {
      if (interfaces.erase(membership.interface_index) != 0) return false;
      Drop(group, membership);
      return true;
    });
    for (const int interface_index : interfaces) {
      (void)JoinOn(group, &joined, interface_index, kMaxMemberships - kKeptForGroups);
    }
  }
}

void GroupMemberships::AbandonAfterFork() {
  for (UdpSocket& socket : sockets_) socket.Close();
  for (Holder& holder : holders_) holder.fd.reset();
}

std::string GroupMemberships::Explain(const Gid& group, int error) {
  const std::string text = "the multicast group " + AddressText(group) + " cannot be joined ";
  if (error == ENOSPC) return text + "as there are too many already: leave some";
  return text + "(" + std::strerror(error) +
         "): allow more open files, and see 'ip maddress' for the groups of this host";
}

}  // namespace uroce::nic
