#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dpdk_nic/base/error_or.h"
#include "transport/ids.h"

namespace uroce::nic {

// An address of this host that a socket can be bound to.
struct HostAddress {
  transport::Gid gid;
  int interface_index = 0;  // of the interface that has the address
  uint32_t mtu_bytes = 0;   // of that interface

  bool operator==(const HostAddress&) const = default;
};

// The addresses of the interface that has the default route, or of the only interface beside the
// loopback one if there is no default route: the link-local one first, then IPv4, then IPv6.
ErrorOr<std::vector<HostAddress>> DefaultAddresses();

// The addresses of one interface, in the same order.
std::vector<HostAddress> AddressesOf(int interface_index);

// The addresses of all interfaces but the loopback one, at most kMaxLocalAddresses: first those of
// DefaultAddresses, then the others, by interface. Empty if all there is are link-local ones.
std::vector<HostAddress> AllAddresses();

// Whether it is one of AllAddresses.
bool HostReachesOthersFrom(const transport::Gid& gid);

// The addresses `wanted`, with their interfaces. An error if one is not this host's or not up.
ErrorOr<std::vector<HostAddress>> FindAddresses(const std::vector<transport::Gid>& wanted);

// The addresses in `gids` that this host has now, with their interfaces, in the same order.
std::vector<HostAddress> AddressesAmong(std::span<const transport::Gid> gids);

// The MAC of a port that has these addresses and no MAC of its own: that of the interface, if the
// link-local address, which comes first, is derived from it.
transport::MacAddress MacOf(const std::vector<HostAddress>& addresses);
// The GID table of the addresses: the link-local one first (if there is none, one made from the
// MAC, which reaches no host), then the others.
std::vector<transport::Gid> GidsOf(const std::vector<HostAddress>& addresses);

// :: or 0.0.0.0
bool IsWildcard(const transport::Gid& gid);
// fe80::/10
bool IsLinkLocal(const transport::Gid& gid);

// ff00::/16 and ff01::/16: groups that end at this host (RFC 4291, 2.7), which the kernel sends
// nothing to.
bool IsGroupOfThisHost(const transport::Gid& gid);

// "10.0.0.1" or "fd00::1".
std::string AddressText(const transport::Gid& gid);

// A socket address of either IP version.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  // `interface_index` is the scope of a link-local address or group.
  static SocketAddress Make(const transport::Gid& gid, uint16_t port, int interface_index);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// The address that the kernel filled in; an all-zero GID if it is of no IP version.
transport::Gid GidOf(const sockaddr_storage& address);
uint16_t PortOf(const sockaddr_storage& address);

}  // namespace uroce::nic
