#include "dpdk_nic/port/udp/kernel_route.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/port/udp/udp_address.h"
#include "transport/wire/udp.h"

namespace uroce::nic {

// The kernel gives a connected UDP socket a route, and tells the MTU of that route's path.
KernelRoute FindKernelRoute(const transport::Gid& destination, int interface_index) {
  const bool is_ipv4 = destination.IsIpv4Mapped();
  const UniqueFd fd(socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd) return {};  // nothing is known: sending will tell
  const SocketAddress to =
      SocketAddress::Make(destination, transport::UdpHeader::kRocePort, interface_index);
  if (connect(fd.get(), to.get(), to.bytes) != 0) return {.error = errno};
  int mtu_bytes = 0;
  socklen_t bytes = sizeof mtu_bytes;
  const int level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  if (getsockopt(fd.get(), level, is_ipv4 ? IP_MTU : IPV6_MTU, &mtu_bytes, &bytes) != 0) return {};
  return {.mtu_bytes = static_cast<uint32_t>(mtu_bytes)};
}

}  // namespace uroce::nic
