#include "dpdk_nic/next_hop.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dpdk_nic/unique_fd.h"

namespace uroce::nic {
namespace {

using transport::Gid;

struct RouteRequest {
  nlmsghdr header{};
  rtmsg route{};
  std::array<uint8_t, 64> attributes{};
};

void AddAttribute(uint16_t type, const void* data, size_t bytes, RouteRequest* request) {
  auto* attribute = reinterpret_cast<rtattr*>(reinterpret_cast<uint8_t*>(request) +
                                              NLMSG_ALIGN(request->header.nlmsg_len));
  attribute->rta_type = type;
  attribute->rta_len = static_cast<uint16_t>(RTA_LENGTH(bytes));
  memcpy(RTA_DATA(attribute), data, bytes);
  request->header.nlmsg_len =
      static_cast<uint32_t>(NLMSG_ALIGN(request->header.nlmsg_len) + RTA_ALIGN(attribute->rta_len));
}

RouteRequest MakeRequest(int interface_index, const Gid& destination) {
  RouteRequest request;
  const bool ipv4 = destination.IsIpv4Mapped();
  request.header.nlmsg_len = NLMSG_LENGTH(sizeof request.route);
  request.header.nlmsg_type = RTM_GETROUTE;
  request.header.nlmsg_flags = NLM_F_REQUEST;
  request.route.rtm_family = ipv4 ? AF_INET : AF_INET6;
  request.route.rtm_dst_len = ipv4 ? 32 : 128;
  const size_t address_offset = ipv4 ? 12 : 0;
  AddAttribute(RTA_DST, &destination.bytes[address_offset], 16 - address_offset, &request);
  AddAttribute(RTA_OIF, &interface_index, sizeof interface_index, &request);
  return request;
}

// The gateway in the kernel's answer, or `destination` if it names none.
Gid ParseGateway(const nlmsghdr* answer, const Gid& destination) {
  if (answer->nlmsg_type != RTM_NEWROUTE) return destination;
  const auto* route = static_cast<const rtmsg*>(NLMSG_DATA(answer));
  auto bytes = static_cast<int>(RTM_PAYLOAD(answer));
  for (const rtattr* attribute = RTM_RTA(route); RTA_OK(attribute, bytes);
       attribute = RTA_NEXT(attribute, bytes)) {
    if (attribute->rta_type != RTA_GATEWAY) continue;
    const auto* address = static_cast<const uint8_t*>(RTA_DATA(attribute));
    if (route->rtm_family == AF_INET && RTA_PAYLOAD(attribute) == 4) {
      return Gid::FromIpv4({address[0], address[1], address[2], address[3]});
    }
    if (route->rtm_family == AF_INET6 && RTA_PAYLOAD(attribute) == 16) {
      Gid gateway;
      std::copy_n(address, 16, gateway.bytes.begin());
      return gateway;
    }
  }
  return destination;
}

// The kernel answers such a request before send() returns: nothing here waits.
Gid AskKernel(int interface_index, const Gid& destination) {
  const UniqueFd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return destination;
  const RouteRequest request = MakeRequest(interface_index, destination);
  alignas(nlmsghdr) std::array<uint8_t, 4'096> answer;
  if (send(fd.get(), &request, request.header.nlmsg_len, 0) < 0) return destination;
  const ssize_t bytes = recv(fd.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  const auto* header = reinterpret_cast<const nlmsghdr*>(answer.data());
  if (bytes <= 0 || !NLMSG_OK(header, static_cast<uint32_t>(bytes))) return destination;
  return ParseGateway(header, destination);
}

}  // namespace

NeighborTable::NextHop KernelNextHop(int interface_index) {
  return
      [interface_index](const Gid& destination) { return AskKernel(interface_index, destination); };
}

}  // namespace uroce::nic
