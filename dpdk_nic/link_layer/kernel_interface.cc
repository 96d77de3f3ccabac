#include "dpdk_nic/link_layer/kernel_interface.h"

#include <linux/ethtool.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace uroce::nic {
namespace {

constexpr uint16_t kRoceUdpPort = 4791;

// Accepts nothing: the socket exists only so that the kernel finds the port taken.
bool DropEverything(int fd) {
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{.len = 1, .filter = &drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

template <class Address>
UniqueFd HoldUdpPort(const Address& address, int family) {
  UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return {};
  const int on = 1;
  const int off = 0;
  if (family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);  // other uroce processes too
  if (!DropEverything(fd.get())) return {};
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  return fd;
}

}  // namespace

KernelInterface::KernelInterface() : news_(RTMGRP_LINK) {}

ErrorOr<std::unique_ptr<KernelInterface>> KernelInterface::Attach(const std::string& name) {
  std::unique_ptr<KernelInterface> interface(new KernelInterface);
  interface->index_ = static_cast<int>(if_nametoindex(name.c_str()));
  if (interface->index_ == 0) {
    return Error{"there is no network interface " + name + "; `ip link` lists those there are"};
  }
  Error error;
  interface->AskState();
  interface->Serve();
  if (!interface->ReadMtu(name, &error.sentence)) return error;
  if (!interface->ReceiveMulticast(name, &error.sentence)) return error;
  interface->SuppressPortUnreachable();
  return interface;
}

// Serve reads the answer like the changes that the kernel reports by itself.
void KernelInterface::AskState() {
  ifinfomsg body{};
  body.ifi_index = index_;
  news_.Send(RtnetlinkRequest(RTM_GETLINK, 0, body));
}

void KernelInterface::Serve() {
  while (const auto message = news_.Receive()) {
    if (message->error() == ENODEV) is_gone_ = true;
    const auto* body = message->body<ifinfomsg>();
    // Bridges (AF_BRIDGE) announce their ports by the same messages.
    if (body == nullptr || body->ifi_family != AF_UNSPEC || body->ifi_index != index_) continue;
    if (message->type() == RTM_DELLINK) is_gone_ = true;
    if (message->type() == RTM_NEWLINK) has_carrier_ = (body->ifi_flags & IFF_RUNNING) != 0;
  }
  if (news_.TakeOverflow()) AskState();
}

bool KernelInterface::ReadMtu(const std::string& name, std::string* error) {
  UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) {
    *error = "the MTU of " + name + " cannot be read: " + strerror(errno);
    return false;
  }
  mtu_bytes_ = static_cast<uint32_t>(request.ifr_mtu);
  return true;
}

uint32_t KernelInterface::receive_queues() const {
  ifreq request{};
  request.ifr_ifindex = index_;
  if (ioctl(membership_.get(), SIOCGIFNAME, &request) != 0) return 1;
  ethtool_channels channels{};
  channels.cmd = ETHTOOL_GCHANNELS;
  request.ifr_data = reinterpret_cast<char*>(&channels);
  if (ioctl(membership_.get(), SIOCETHTOOL, &request) != 0) return 1;  // no queues reported
  return std::max(1u, channels.combined_count + channels.rx_count);
}

bool KernelInterface::ReceiveMulticast(const std::string& name, std::string* error) {
  membership_ = UniqueFd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!membership_) {
    *error = "frames cannot be sent on " + name + " without the capability CAP_NET_RAW (" +
             strerror(errno) + "); run as root, or use setcap or a user namespace";
    return false;
  }
  packet_mreq membership{};
  membership.mr_ifindex = index_;
  membership.mr_type = PACKET_MR_ALLMULTI;
  if (setsockopt(membership_.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership,
                 sizeof membership) != 0) {
    *error = "multicast cannot be received on " + name + ": " + strerror(errno);
    return false;
  }
  return true;
}

// If neither socket can be had, another program has the port (the kernel's own rdma_rxe, say), and
// the kernel sends no port unreachable either.
void KernelInterface::SuppressPortUnreachable() {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(kRoceUdpPort);
  udp_guard_ = HoldUdpPort(any6, AF_INET6);
  if (udp_guard_) return;
  sockaddr_in any4{};  // a host without IPv6
  any4.sin_family = AF_INET;
  any4.sin_port = htons(kRoceUdpPort);
  udp_guard_ = HoldUdpPort(any4, AF_INET);
}

}  // namespace uroce::nic
