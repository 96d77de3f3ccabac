// How a port on the host's own addresses follows these as they come and go.
#include <sys/epoll.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "dpdk_nic/port/udp/udp_port.h"

namespace uroce::nic {

using transport::Gid;

void UdpPort::FollowNews() {
  interface_index_ = addresses_[0].interface_index;
  news_ = std::make_unique<AddressNews>();
  epoll_event event{.events = EPOLLIN, .data = {}};
  epoll_ctl(wait_.get(), EPOLL_CTL_ADD, news_->fd(), &event);
  FollowAddresses();  // changes since addresses_ was read
}

// Follows the addresses of the interface that had the default route when the port was opened.
void UdpPort::FollowAddresses() {
  const std::vector<HostAddress> now = AddressesOf(interface_index_);
  CloseSocketsOfGoneAddresses(now);
  addresses_.clear();
  std::vector<Gid> gids;
  for (const HostAddress& address : now) {
    if (!OpenSocketOf(address)) continue;
    addresses_.push_back(address);
    gids.push_back(address.gid);
  }
  FollowGroups();
  if (gids_.Follow(gids)) has_new_gids_ = true;
}

void UdpPort::SetAddresses(const std::vector<HostAddress>& addresses) {
  addresses_ = addresses;
  FollowGroups();
}

// Frames in these sockets are lost; the sender repeats them.
void UdpPort::CloseSocketsOfGoneAddresses(const std::vector<HostAddress>& now) {
  const auto is_gone = [&](const UdpSocket& socket) {
    return std::find(now.begin(), now.end(), socket.address()) == now.end();
  };
  if (std::none_of(sockets_.begin(), sockets_.end(), is_gone)) return;
  run_ = {};
  batch_.Clear();
  busy_socket_ = 0;
  for (const UdpSocket& socket : sockets_) {
    // Not left to close(): a child between fork and exec may hold the descriptor a little longer.
    if (is_gone(socket)) epoll_ctl(wait_.get(), EPOLL_CTL_DEL, socket.fd(), nullptr);
  }
  std::erase_if(sockets_, is_gone);
}

// Returns whether the address has a socket. If none can be opened a notice says why.
bool UdpPort::OpenSocketOf(const HostAddress& address) {
  const bool is_open = std::any_of(sockets_.begin(), sockets_.end(), [&](const UdpSocket& socket) {
    return socket.address() == address;
  });
  if (is_open) return true;
  auto opened = UdpSocket::Open(address);
  if (!opened.ok()) {
    notice_ = {.sentence = opened.error(), .about = {}};
    return false;
  }
  if (!Watch(opened.value())) return false;
  sockets_.push_back(std::move(opened).value());
  return true;
}

std::optional<std::vector<Gid>> UdpPort::TakeGids() {
  if (!std::exchange(has_new_gids_, false)) return std::nullopt;
  return gids_.gids();
}

}  // namespace uroce::nic
