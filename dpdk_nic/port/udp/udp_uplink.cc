#include "dpdk_nic/port/udp/udp_uplink.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "transport/wire/encapsulation.h"

namespace uroce::nic {
namespace {

constexpr transport::Duration kOpenInterval = transport::Milliseconds(1'000);
// How often to try while processes may still have sockets of the previous uroced: they hear of its
// end within 100 ms.
constexpr transport::Duration kSoon = transport::Milliseconds(10);
constexpr int kQuietTries = 50;
// Groups that one pass leaves or joins anew. Each takes some microseconds.
constexpr int kGroupsAPass = 16;
// Addresses of ours that a destination without a route is tried from. Each takes some microseconds.
constexpr int kSourcesToTry = 16;
// Bounds the groups of a host whose processes join without end.
constexpr size_t kMaxGroups = GroupMemberships::kMaxMemberships;

}  // namespace

ErrorOr<std::unique_ptr<UdpUplink>> UdpUplink::Create(const Options& options) {
  std::unique_ptr<UdpUplink> uplink(new UdpUplink);
  uplink->is_wildcard_ = options.addresses.empty();
  uplink->mtu_bytes_ = options.mtu_bytes;
  uplink->shares_sockets_ = options.shares_sockets;
  uplink->tries_left_ = options.shares_sockets ? kQuietTries : 0;
  if (uplink->is_wildcard_) {
    uplink->addresses_ = AllAddresses();
  } else {
    auto found = FindAddresses(options.addresses);
    if (!found.ok()) return Error{found.error()};
    uplink->addresses_ = std::move(found).value();
  }
  if (uplink->addresses_.empty()) return std::unique_ptr<UdpUplink>();
  uplink->mac_ = MacOf(uplink->addresses_);
  uplink->gids_ = LocalGids(GidsOf(uplink->addresses_));
  uplink->wait_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!uplink->wait_) {
    return Error{std::string("nothing can be waited for (") + std::strerror(errno) +
                 "): allow this process more open files"};
  }
  if (uplink->is_wildcard_) {
    uplink->news_ = std::make_unique<AddressNews>();
    epoll_event event{.events = EPOLLIN, .data = {}};
    epoll_ctl(uplink->wait_.get(), EPOLL_CTL_ADD, uplink->news_->fd(), &event);
    uplink->FollowAddresses();  // changes since addresses_ was read
  }
  return uplink;
}

void UdpUplink::FollowAddresses() {
  addresses_ = AllAddresses();
  if (port_) port_->SetAddresses(addresses_);
  std::vector<transport::Gid> now;
  for (const HostAddress& address : addresses_) now.push_back(address.gid);
  if (gids_.Follow(now)) has_new_gids_ = true;
}

std::optional<std::vector<transport::Gid>> UdpUplink::TakeGids() {
  if (!std::exchange(has_new_gids_, false)) return std::nullopt;
  return gids_.gids();
}

ErrorOr<std::unique_ptr<UdpPort>> UdpUplink::OpenPort() {
  if (addresses_.empty()) {
    return Error{"this host has no address any more that others reach: connect it to a network"};
  }
  if (shares_sockets_) {
    auto opened = UdpPort::OpenSender(addresses_, mtu_bytes_);
    if (!opened.ok()) return opened;
    if (auto error = OpenGroups(opened.value().get())) return *error;
    return opened;
  }
  if (is_wildcard_) return UdpPort::OpenWildcard(addresses_, mtu_bytes_);
  std::vector<transport::Gid> gids;
  for (const HostAddress& address : addresses_) gids.push_back(address.gid);
  return UdpPort::Open(gids, /*mtu_bytes=*/0);
}

std::optional<Error> UdpUplink::OpenGroups(UdpPort* port) {
  std::vector<HostAddress> bound = addresses_;
  if (is_wildcard_) {
    bound.clear();
    for (const UdpSocket& socket : port->sockets()) bound.push_back(socket.address());
  }
  std::vector<SocketGroup> groups;
  for (const HostAddress& address : bound) {
    auto first = UdpSocket::Open(address, UdpSocket::Use::kFirstOfGroup);
    // Processes of an earlier uroced close their sockets at once, unless they are stopped.
    if (!first.ok() && tries_left_ <= 1) {
      first = UdpSocket::Open(address, UdpSocket::Use::kOrphanedGroup);
    }
    if (!first.ok()) return Error{first.error()};
    groups.emplace_back(first.value());
    if (!port->AddReceiver(std::move(first).value())) {
      return Error{"nothing can be waited for: allow uroced more open files"};
    }
  }
  groups_ = std::move(groups);
  return std::nullopt;
}

std::optional<Error> UdpUplink::Open() {
  is_wanted_ = true;
  next_open_ = Now() + (tries_left_ != 0 ? kSoon : kOpenInterval);
  auto opened = OpenPort();
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (!opened.ok()) {
    why_closed_ = opened.error();
  } else if (epoll_ctl(wait_.get(), EPOLL_CTL_ADD, opened.value()->wait_fd(), &event) != 0) {
    why_closed_ = std::string("nothing can be waited for (") + std::strerror(errno) +
                  "): allow uroced more open files";
  } else {
    port_ = std::move(opened).value();
    if (is_wildcard_) port_->KeepGroupsFromThisHost();
    to_be_joined_ = joined_;
    return std::nullopt;
  }
  groups_.clear();
  tries_left_ = std::max(tries_left_ - 1, 0);
  return Error{why_closed_};
}

PacketPort::PathState UdpUplink::OpenFor(const transport::Gid& remote) {
  if (!port_ && (tries_left_ == 0 || Now() >= next_open_)) Open();
  if (port_) return PathState::kReady;
  // A process that only receives may have all its peers on this host.
  const bool names_a_host = !remote.IsZero() && !remote.IsMulticast();
  must_tell_ |= names_a_host;
  if (tries_left_ != 0) return PathState::kPending;
  if (names_a_host) notice_ = {.sentence = why_closed_, .about = remote};
  return PathState::kUnreachable;
}

PacketPort::PathState UdpUplink::JoinGroup(const transport::Gid& group) {
  if (IsGroupOfThisHost(group)) return PathState::kReady;
  if (joined_.size() >= kMaxGroups && !joined_.contains(group)) {
    notice_ = {.sentence = GroupMemberships::Explain(group, ENOSPC), .about = group};
    return PathState::kRefused;
  }
  joined_.insert(group);
  // Makes room: groups that wait to be left would keep new ones out.
  to_be_left_.erase(group);
  if (!to_be_left_.empty()) LeaveNextGroup();
  if (const PathState state = OpenFor(group); state != PathState::kReady) return state;
  const PathState state = port_->JoinGroup(group);
  if (state == PathState::kRefused) joined_.erase(group);
  return state;
}

void UdpUplink::LeaveGroup(const transport::Gid& group) {
  if (joined_.erase(group) == 0 || !port_) return;
  to_be_joined_.erase(group);
  to_be_left_.insert(group);
}

void UdpUplink::ChangeGroups() {
  for (int left = kGroupsAPass; left != 0; --left) {
    if (!to_be_left_.empty()) {
      LeaveNextGroup();
    } else if (!to_be_joined_.empty()) {
      port_->JoinGroup(to_be_joined_.extract(to_be_joined_.begin()).value());
    } else {
      break;
    }
  }
}

void UdpUplink::LeaveNextGroup() {
  port_->LeaveGroup(to_be_left_.extract(to_be_left_.begin()).value());
}

size_t UdpUplink::max_groups() const {
  using Receivers = GroupMemberships::Receivers;
  return GroupMemberships::MaxGroups(
      is_wildcard_ ? Receivers::kOfAllAddresses : Receivers::kOfTheGroup, addresses_);
}

// A policy rule may give a route only to packets from one of our addresses. The queue pair chooses
// its address, so any of them will do.
KernelRoute UdpUplink::RouteTo(const transport::Gid& remote) const {
  const KernelRoute route =
      FindKernelRoute({.destination = remote, .interface_index = interface_index()});
  int tries = kSourcesToTry;
  for (const HostAddress& own : addresses_) {
    const bool is_alike = own.gid.IsIpv4Mapped() == remote.IsIpv4Mapped() &&
                          IsLinkLocal(own.gid) == IsLinkLocal(remote);
    if (route.error == 0 || tries == 0) break;
    if (!is_alike) continue;
    --tries;
    const KernelRoute from_own = FindKernelRoute(
        {.destination = remote, .source = own.gid, .interface_index = own.interface_index});
    if (from_own.error == 0) return from_own;
  }
  return route;
}

PacketPort::PathState UdpUplink::PreparePath(const Path& path) {
  if (IsGroupOfThisHost(path.remote_gid)) return PathState::kReady;
  if (const PathState state = OpenFor(path.remote_gid); state != PathState::kReady) return state;
  if (path.remote_gid.IsZero() || path.remote_gid.IsMulticast()) return PathState::kReady;
  const KernelRoute route = RouteTo(path.remote_gid);
  if (route.error == 0) return PathState::kReady;
  notice_ = {.sentence = Explain({.destination = path.remote_gid, .error = route.error}),
             .about = path.remote_gid};
  return PathState::kUnreachable;
}

uint32_t UdpUplink::PathMtu(const Path& path) const {
  const KernelRoute route = RouteTo(path.remote_gid);
  return route.mtu_bytes == 0 ? mtu_bytes_ : std::min(mtu_bytes_, route.mtu_bytes);
}

transport::FrameRoom UdpUplink::AcquireTransmit(transport::Route route) {
  const bool is_full = port_ && port_->AcquireTransmit(route).empty();
  return is_full ? transport::FrameRoom() : transport::FrameRoom(frame_);
}

void UdpUplink::CommitTransmit(size_t frame_bytes) {
  const auto frame = std::span(frame_).first(frame_bytes);
  if (!port_) OpenForFrame(frame);
  if (port_) port_->SendEthernet(transport::Route::kWire, frame);
}

// The port can be closed when a frame comes: its process named the host to a previous uroced.
void UdpUplink::OpenForFrame(std::span<const uint8_t> frame) {
  const auto headers = transport::FindRocePacket(frame);
  if (!headers || IsGroupOfThisHost(headers->flow.destination)) return;
  must_tell_ = true;
  if (Now() >= next_open_) {
    if (const auto error = Open(); error && tries_left_ == 0) {
      notice_ = {.sentence = error->sentence, .about = headers->flow.destination};
    }
  }
  if (!port_) ++not_sent_;
}

void UdpUplink::Flush() {
  if (port_) port_->Flush();
}

void UdpUplink::EndSleep() {
  if (port_) port_->EndSleep();
}

void UdpUplink::ServeLink() {
  const transport::Time now = Now();
  if (news_ && news_->Take()) FollowAddresses();
  if (port_) {
    port_->ServeLink();
    ChangeGroups();
    for (SocketGroup& group : groups_) group.Serve(now);
  } else if (is_wanted_ && (shares_sockets_ || !joined_.empty()) && now >= next_open_) {
    const auto error = Open();
    // About all hosts that processes have named.
    const bool is_final = error && tries_left_ == 0;
    if (is_final && std::exchange(must_tell_, false)) {
      notice_ = {.sentence = error->sentence, .about = {}};
    }
  }
}

std::vector<UniqueFd> UdpUplink::Share(uint32_t block) {
  std::vector<UniqueFd> sockets;
  for (SocketGroup& group : groups_) {
    UniqueFd copy(fcntl(group.Add(Now(), block), F_DUPFD_CLOEXEC, 0));
    if (copy) sockets.push_back(std::move(copy));
  }
  return sockets;
}

void UdpUplink::Unshare(uint32_t block) {
  for (SocketGroup& group : groups_) group.Remove(Now(), block);
}

PacketPort::Notice UdpUplink::TakeNotice() {
  if (!notice_.sentence.empty() || !port_) return std::exchange(notice_, {});
  return port_->TakeNotice();
}

PacketPort::Counters UdpUplink::counters() const {
  Counters counters = port_ ? port_->counters() : Counters{};
  counters.transmit_dropped_no_link += not_sent_;
  counters.drops[PortDrop::kNotSent] += not_sent_;
  return counters;
}

}  // namespace uroce::nic
