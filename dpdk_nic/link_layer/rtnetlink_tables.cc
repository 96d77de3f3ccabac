#include "dpdk_nic/link_layer/rtnetlink_tables.h"

#include <arpa/inet.h>
#include <linux/neighbour.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "dpdk_nic/base/cancellation_guard.h"

namespace uroce::nic {
namespace {

using transport::Gid;
using transport::MacAddress;

constexpr uint32_t kNewsGroups = RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
// The discard port (RFC 863): a datagram to it does no harm.
constexpr uint16_t kDiscardPort = 9;

constexpr uint16_t kUsableStates =
    NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE;
constexpr uint16_t kConfirmedStates = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE;

ndmsg NeighborBody(int interface_index, const Gid& neighbor) {
  ndmsg body{};
  body.ndm_family = FamilyOf(neighbor);
  body.ndm_ifindex = interface_index;
  return body;
}

KernelTables::Neighbor StateIn(const RtnetlinkMessage& message) {
  KernelTables::Neighbor neighbor;
  const uint16_t state = message.body<ndmsg>()->ndm_state;
  const auto address = message.Find<ndmsg>(NDA_LLADDR);
  MacAddress mac;
  if ((state & kUsableStates) == 0 || address.size() != mac.size()) return neighbor;
  std::copy(address.begin(), address.end(), mac.begin());
  neighbor.mac = mac;
  neighbor.is_confirmed = (state & kConfirmedStates) != 0;
  return neighbor;
}

// A socket whose datagrams leave by the interface. Needs no privilege, unlike SO_BINDTODEVICE.
UniqueFd DatagramSocket(int family, int interface_index) {
  UniqueFd fd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const uint32_t index = htonl(static_cast<uint32_t>(interface_index));
  if (family == AF_INET) {
    setsockopt(fd.get(), IPPROTO_IP, IP_UNICAST_IF, &index, sizeof index);
  } else {
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_UNICAST_IF, &index, sizeof index);
  }
  return fd;
}

}  // namespace

RtnetlinkTables::RtnetlinkTables(int interface_index)
    : interface_index_(interface_index),
      news_(kNewsGroups),
      ipv4_datagrams_(DatagramSocket(AF_INET, interface_index)),
      ipv6_datagrams_(DatagramSocket(AF_INET6, interface_index)) {}

std::vector<LocalAddress> RtnetlinkTables::Addresses() {
  std::vector<LocalAddress> addresses;
  questions_.Send(RtnetlinkRequest(RTM_GETADDR, NLM_F_DUMP, ifaddrmsg{}));
  while (const auto answer = questions_.Receive()) {
    const auto* body = answer->body<ifaddrmsg>();
    if (answer->type() != RTM_NEWADDR || body == nullptr) continue;
    if (static_cast<int>(body->ifa_index) != interface_index_) continue;
    // On a point-to-point interface IFA_ADDRESS is the peer's.
    auto address = answer->FindAddress<ifaddrmsg>(IFA_LOCAL);
    if (!address) address = answer->FindAddress<ifaddrmsg>(IFA_ADDRESS);
    if (address) addresses.push_back({*address, body->ifa_prefixlen});
  }
  return addresses;
}

Gid RtnetlinkTables::NextHop(const Gid& destination) {
  rtmsg body{};
  body.rtm_family = FamilyOf(destination);
  body.rtm_dst_len = destination.IsIpv4Mapped() ? 32 : 128;
  RtnetlinkRequest question(RTM_GETROUTE, 0, body);
  question.AddAddress(RTA_DST, destination);
  question.Add(RTA_OIF, interface_index_);
  questions_.Send(question);
  const auto answer = questions_.Receive();
  if (!answer || answer->type() != RTM_NEWROUTE) return destination;
  return answer->FindAddress<rtmsg>(RTA_GATEWAY).value_or(destination);
}

KernelTables::Neighbor RtnetlinkTables::Find(const Gid& neighbor) {
  RtnetlinkRequest question(RTM_GETNEIGH, 0, NeighborBody(interface_index_, neighbor));
  question.AddAddress(NDA_DST, neighbor);
  questions_.Send(question);
  const auto answer = questions_.Receive();
  if (!answer || answer->type() != RTM_NEWNEIGH || answer->body<ndmsg>() == nullptr) return {};
  return StateIn(*answer);
}

void RtnetlinkTables::Ask(const Gid& neighbor) {
  if (may_order_ && Order(neighbor)) return;
  SendDatagram(neighbor);
}

bool RtnetlinkTables::Order(const Gid& neighbor) {
  ndmsg body = NeighborBody(interface_index_, neighbor);
  body.ndm_flags = NTF_USE;
  body.ndm_state = NUD_NONE;
  RtnetlinkRequest order(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_ACK, body);
  order.AddAddress(NDA_DST, neighbor);
  questions_.Send(order);
  const auto answer = questions_.Receive();
  const int error = answer ? answer->error() : EPERM;
  if (error == EPERM) may_order_ = false;
  return error == 0;
}

// To send the datagram the kernel has to resolve the neighbour.
void RtnetlinkTables::SendDatagram(const Gid& neighbor) {
  const CancellationGuard guard;
  if (neighbor.IsIpv4Mapped()) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    std::copy_n(&neighbor.bytes[12], 4, reinterpret_cast<uint8_t*>(&to.sin_addr));
    sendto(ipv4_datagrams_.get(), "", 0, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
    return;
  }
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  to.sin6_scope_id = static_cast<uint32_t>(interface_index_);
  std::copy(neighbor.bytes.begin(), neighbor.bytes.end(), to.sin6_addr.s6_addr);
  sendto(ipv6_datagrams_.get(), "", 0, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
}

std::optional<KernelTables::Change> RtnetlinkTables::NextChange() {
  while (const auto message = news_.Receive()) {
    const uint16_t type = message->type();
    if (type == RTM_NEWADDR || type == RTM_DELADDR) {
      const auto* body = message->body<ifaddrmsg>();
      if (body == nullptr || static_cast<int>(body->ifa_index) != interface_index_) continue;
      return Change{Change::Kind::kAddresses, {}, {}};
    }
    if (type != RTM_NEWNEIGH && type != RTM_DELNEIGH) continue;
    const auto* body = message->body<ndmsg>();
    if (body == nullptr || body->ndm_ifindex != interface_index_) continue;
    const auto neighbor = message->FindAddress<ndmsg>(NDA_DST);
    // A bridge reports its forwarding table by the same messages, with another family.
    if (!neighbor || body->ndm_family != FamilyOf(*neighbor)) continue;
    return Change{Change::Kind::kNeighbor, *neighbor,
                  type == RTM_DELNEIGH ? Neighbor{} : StateIn(*message)};
  }
  if (news_.TakeOverflow()) return Change{Change::Kind::kGap, {}, {}};
  return std::nullopt;
}

}  // namespace uroce::nic
