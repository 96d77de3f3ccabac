#include "dpdk_nic/port/udp/udp_uplink.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/port/udp/kernel_route.h"
#include "dpdk_nic/port/udp/transmit_queue.h"

namespace uroce::nic {
namespace {

constexpr transport::Duration kOpenInterval = transport::Milliseconds(1'000);

}  // namespace

ErrorOr<std::unique_ptr<UdpUplink>> UdpUplink::Create(const Options& options) {
  std::unique_ptr<UdpUplink> uplink(new UdpUplink);
  uplink->is_wildcard_ = options.addresses.empty();
  uplink->mtu_bytes_ = options.mtu_bytes;
  if (uplink->is_wildcard_) {
    uplink->addresses_ = AllAddresses();
  } else {
    auto found = FindAddresses(options.addresses);
    if (!found.ok()) return Error{found.error()};
    uplink->addresses_ = std::move(found).value();
  }
  if (uplink->addresses_.empty()) return std::unique_ptr<UdpUplink>();
  uplink->wait_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!uplink->wait_) {
    return Error{std::string("nothing can be waited for (") + std::strerror(errno) +
                 "): allow this process more open files"};
  }
  return uplink;
}

std::optional<Error> UdpUplink::Open() {
  next_open_ = Now() + kOpenInterval;
  std::vector<transport::Gid> gids;
  for (const HostAddress& address : addresses_) gids.push_back(address.gid);
  auto opened = is_wildcard_ ? UdpPort::OpenWildcard(addresses_, mtu_bytes_)
                             : UdpPort::Open(gids, /*mtu_bytes=*/0);
  if (!opened.ok()) return Error{opened.error()};
  epoll_event event{.events = EPOLLIN, .data = {}};
  if (epoll_ctl(wait_.get(), EPOLL_CTL_ADD, opened.value()->wait_fd(), &event) != 0) {
    return Error{std::string("nothing can be waited for (") + std::strerror(errno) +
                 "): allow uroced more open files"};
  }
  port_ = std::move(opened).value();
  return std::nullopt;
}

PacketPort::PathState UdpUplink::PreparePath(const Path& path) {
  const auto error = port_ ? std::nullopt : Open();
  if (error) {
    notice_ = {.sentence = error->sentence, .about = path.remote_gid};
    return PathState::kUnreachable;
  }
  if (path.remote_gid.IsZero() || path.remote_gid.IsMulticast()) return PathState::kReady;
  const KernelRoute route = FindKernelRoute(path.remote_gid, addresses_[0].interface_index);
  if (route.error == 0) return PathState::kReady;
  notice_ = {.sentence = Explain({.destination = path.remote_gid, .error = route.error}),
             .about = path.remote_gid};
  return PathState::kUnreachable;
}

uint32_t UdpUplink::PathMtu(const Path& path) const {
  const KernelRoute route = FindKernelRoute(path.remote_gid, addresses_[0].interface_index);
  return route.mtu_bytes == 0 ? mtu_bytes_ : std::min(mtu_bytes_, route.mtu_bytes);
}

transport::FrameRoom UdpUplink::AcquireTransmit(transport::Route route) {
  room_ = port_ ? port_->AcquireTransmit(route) : transport::FrameRoom(frame_);
  return room_;
}

void UdpUplink::CommitTransmit(size_t frame_bytes) {
  constexpr uint8_t kGroupBit = 1;  // of an Ethernet address
  if ((room_[0] & kGroupBit) != 0) return;
  if (port_) return port_->CommitTransmit(frame_bytes);
  CommitToClosed(room_.first(frame_bytes));
}

// The process named the host to a uroced before this one.
void UdpUplink::CommitToClosed(std::span<const uint8_t> frame) {
  const auto outgoing = ReadOutgoingFrame(frame);
  if (!outgoing) return;
  if (Now() >= next_open_) {
    if (const auto error = Open()) {
      notice_ = {.sentence = error->sentence, .about = outgoing->destination};
    }
  }
  if (!port_) {
    ++not_sent_;
    return;
  }
  const transport::FrameRoom room = port_->AcquireTransmit(transport::Route::kWire);
  std::copy(frame.begin(), frame.end(), room.begin());
  port_->CommitTransmit(frame.size());
}

void UdpUplink::Flush() {
  if (port_) port_->Flush();
}

void UdpUplink::EndSleep() {
  if (port_) port_->EndSleep();
}

void UdpUplink::ServeLink() {
  if (port_) port_->ServeLink();
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
