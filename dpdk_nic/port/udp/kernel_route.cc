#include "dpdk_nic/port/udp/kernel_route.h"

#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/rtnetlink.h"
#include "dpdk_nic/link_layer/rtnetlink_tables.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/wire/udp.h"

namespace uroce::nic {
namespace {

using transport::Gid;

UniqueFd SocketFor(const Gid& destination) {
  const int family = destination.IsIpv4Mapped() ? AF_INET : AF_INET6;
  return UniqueFd(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

int OptionOf(int fd, int level, int option) {
  int value = 0;
  socklen_t bytes = sizeof value;
  return getsockopt(fd, level, option, &value, &bytes) == 0 ? value : 0;
}

// The VRF or interface that sockets of this process are bound to from the start (ip vrf exec).
int BoundInterface(const Gid& destination) {
  const UniqueFd fd = SocketFor(destination);
  return OptionOf(fd.get(), SOL_SOCKET, SO_BINDTOIFINDEX);
}

// The gateway of a route; it may be of the other IP version.
std::optional<Gid> GatewayOf(const RtnetlinkMessage& route) {
  if (const auto gateway = route.FindAddress<rtmsg>(RTA_GATEWAY)) return gateway;
  const auto via = route.Find<rtmsg>(RTA_VIA);
  if (via.size() <= sizeof(rtvia)) return std::nullopt;
  return RtnetlinkMessage::AddressOf(via.subspan(sizeof(rtvia)));
}

int IntOf(std::span<const uint8_t> value) {
  int number = 0;
  if (value.size() == sizeof number) std::memcpy(&number, value.data(), sizeof number);
  return number;
}

// A metric of a route; 0: it has none of that kind.
int MetricOf(const RtnetlinkMessage& route, uint16_t kind) {
  std::span<const uint8_t> metrics = route.Find<rtmsg>(RTA_METRICS);
  rtattr metric;
  while (metrics.size() >= sizeof metric) {
    std::memcpy(&metric, metrics.data(), sizeof metric);
    if (metric.rta_len < sizeof metric || metric.rta_len > metrics.size()) return 0;
    if (metric.rta_type == kind) {
      return IntOf(metrics.subspan(RTA_LENGTH(0), metric.rta_len - RTA_LENGTH(0)));
    }
    metrics = metrics.subspan(std::min<size_t>(RTA_ALIGN(metric.rta_len), metrics.size()));
  }
  return 0;
}

// Whether the interface asks for Ethernet addresses at all.
bool AsksForNeighbors(int interface_index) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_ifindex = interface_index;
  if (ioctl(fd.get(), SIOCGIFNAME, &request) != 0) return false;
  ifreq type = request;
  if (ioctl(fd.get(), SIOCGIFHWADDR, &type) != 0) return false;
  if (type.ifr_hwaddr.sa_family != ARPHRD_ETHER) return false;
  return ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_NOARP) == 0;
}

}  // namespace

// The kernel gives a connected UDP socket a route, and tells what that route is like.
KernelRoute FindKernelRoute(const RouteQuestion& question) {
  const bool is_ipv4 = question.destination.IsIpv4Mapped();
  const UniqueFd fd = SocketFor(question.destination);
  if (!fd) return {};  // nothing is known: sending will tell
  const SocketAddress to = SocketAddress::Make(
      question.destination, transport::UdpHeader::kRocePort, question.interface_index);
  const SocketAddress from = SocketAddress::Make(question.source, 0, question.interface_index);
  if (!question.source.IsZero() && bind(fd.get(), from.get(), from.bytes) != 0) {
    return {.error = errno};
  }
  if (connect(fd.get(), to.get(), to.bytes) != 0) return {.error = errno};
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  KernelRoute route;
  route.mtu_bytes = static_cast<uint32_t>(OptionOf(fd.get(), level, is_ipv4 ? IP_MTU : IPV6_MTU));
  route.hop_limit =
      static_cast<uint8_t>(OptionOf(fd.get(), level, is_ipv4 ? IP_TTL : IPV6_UNICAST_HOPS));
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0) {
    route.source = GidOf(own);
  }
  return route;
}

std::optional<NextHop> FindNextHop(const RouteQuestion& question) {
  rtmsg body{};
  body.rtm_family = FamilyOf(question.destination);
  body.rtm_dst_len = question.destination.IsIpv4Mapped() ? 32 : 128;
  const bool has_source = !question.source.IsZero();
  if (has_source) body.rtm_src_len = body.rtm_dst_len;
  RtnetlinkRequest request(RTM_GETROUTE, 0, body);
  request.AddAddress(RTA_DST, question.destination);
  if (has_source) request.AddAddress(RTA_SRC, question.source);
  const int interface_index = question.interface_index != 0 ? question.interface_index
                                                            : BoundInterface(question.destination);
  if (interface_index != 0) request.Add(RTA_OIF, interface_index);
  RtnetlinkSocket socket;
  socket.Send(request);
  const auto answer = socket.Receive();
  if (!answer || answer->type() != RTM_NEWROUTE) return std::nullopt;
  const int found = IntOf(answer->Find<rtmsg>(RTA_OIF));
  if (found == 0) return std::nullopt;
  return NextHop{.interface_index = found,
                 .gid = GatewayOf(*answer).value_or(question.destination),
                 .hop_limit = static_cast<uint8_t>(MetricOf(*answer, RTAX_HOPLIMIT))};
}

uint8_t HopLimitOf(const RouteQuestion& question) {
  const KernelRoute route = FindKernelRoute(question);
  if (route.error != 0) return kDefaultHopLimit;
  const auto hop = FindNextHop(question);
  if (hop && hop->hop_limit != 0) return hop->hop_limit;
  return route.hop_limit != 0 ? route.hop_limit : kDefaultHopLimit;
}

bool IsResolved(const NextHop& hop) {
  if (hop.gid.IsMulticast() || !AsksForNeighbors(hop.interface_index)) return true;
  RtnetlinkTables tables(hop.interface_index);
  if (tables.Find(hop.gid).mac) return true;
  tables.Ask(hop.gid);
  return false;
}

}  // namespace uroce::nic
