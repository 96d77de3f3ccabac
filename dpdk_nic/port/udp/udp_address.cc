#include "dpdk_nic/port/udp/udp_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <set>

#include "dpdk_nic/base/unique_fd.h"
#include "dpdk_nic/link_layer/link_layer.h"
#include "dpdk_nic/link_layer/local_address.h"

namespace uroce::nic {
namespace {

using transport::Gid;

// One address as the kernel lists it.
struct Listed {
  HostAddress address;
  std::string interface;
  bool is_loopback = false;
};

uint32_t MtuOf(const std::string& interface) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return 0;
  return static_cast<uint32_t>(request.ifr_mtu);
}

std::vector<Listed> ListAddresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  std::vector<Listed> listed;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage address{};
    std::memcpy(&address, entry->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    const int index = static_cast<int>(if_nametoindex(entry->ifa_name));
    listed.push_back({.address = {GidOf(address), index, MtuOf(entry->ifa_name)},
                      .interface = entry->ifa_name,
                      .is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return listed;
}

// The address that the kernel would send from to a far host; all zero if there is no route. Sends
// nothing. The destinations are for documentation (RFC 5737, RFC 3849).
Gid DefaultSource(const char* far_host) {
  Gid to;
  std::array<uint8_t, 4> v4;
  if (inet_pton(AF_INET, far_host, v4.data()) == 1) {
    to = Gid::FromIpv4(v4);
  } else {
    inet_pton(AF_INET6, far_host, to.bytes.data());
  }
  const SocketAddress address = SocketAddress::Make(to, 9, 0);
  const UniqueFd fd(socket(address.get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t own_bytes = sizeof own;
  if (connect(fd.get(), address.get(), address.bytes) != 0) return {};
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) != 0) return {};
  return GidOf(own);
}

// The name of the interface to use; empty if there is none, or none is preferable.
std::string DefaultInterface(const std::vector<Listed>& listed) {
  for (const char* far_host : {"192.0.2.1", "2001:db8::1"}) {
    const Gid source = DefaultSource(far_host);
    for (const Listed& entry : listed) {
      if (entry.address.gid == source && !entry.is_loopback) return entry.interface;
    }
  }
  std::set<std::string> names;
  for (const Listed& entry : listed) {
    if (!entry.is_loopback) names.insert(entry.interface);
  }
  return names.size() == 1 ? *names.begin() : "";
}

int Rank(const Gid& gid) { return IsLinkLocal(gid) ? 0 : gid.IsIpv4Mapped() ? 1 : 2; }

// The listed addresses that `is_wanted` accepts: the link-local one first, then IPv4, then IPv6.
template <class IsWanted>
std::vector<HostAddress> Select(const std::vector<Listed>& listed, IsWanted is_wanted) {
  std::vector<HostAddress> addresses;
  for (const Listed& entry : listed) {
    if (is_wanted(entry)) addresses.push_back(entry.address);
  }
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const auto& a, const auto& b) { return Rank(a.gid) < Rank(b.gid); });
  if (addresses.size() > kMaxLocalAddresses) addresses.resize(kMaxLocalAddresses);
  return addresses;
}

}  // namespace

std::vector<HostAddress> AddressesOf(int interface_index) {
  return Select(ListAddresses(), [&](const Listed& entry) {
    return entry.address.interface_index == interface_index;
  });
}

ErrorOr<std::vector<HostAddress>> DefaultAddresses() {
  const std::vector<Listed> listed = ListAddresses();
  const std::string interface = DefaultInterface(listed);
  if (interface.empty()) {
    const bool has_network = std::any_of(listed.begin(), listed.end(),
                                         [](const Listed& entry) { return !entry.is_loopback; });
    return Error{
        has_network ? "this host has several networks and no default route: choose an address with "
                      "'udp,address=ADDR'"
                    : "this host has no address beside those of its loopback interface: connect "
                      "it to a network, or choose one of them with 'udp,address=ADDR'"};
  }
  return Select(listed, [&](const Listed& entry) { return entry.interface == interface; });
}

std::vector<HostAddress> AllAddresses() {
  std::vector<HostAddress> addresses;
  if (auto found = DefaultAddresses(); found.ok()) addresses = std::move(found).value();
  std::vector<HostAddress> others;
  for (const Listed& entry : ListAddresses()) {
    const auto has_same = [&](const std::vector<HostAddress>& list) {
      return std::any_of(list.begin(), list.end(), [&](const HostAddress& address) {
        return address.gid == entry.address.gid;
      });
    };
    if (!entry.is_loopback && !has_same(addresses) && !has_same(others)) {
      others.push_back(entry.address);
    }
  }
  // Other link-local addresses come last: behind index 0 programs expect addresses that all hosts
  // reach.
  std::stable_sort(others.begin(), others.end(), [](const auto& a, const auto& b) {
    return !IsLinkLocal(a.gid) && IsLinkLocal(b.gid);
  });
  addresses.insert(addresses.end(), others.begin(), others.end());
  if (addresses.size() > kMaxLocalAddresses) addresses.resize(kMaxLocalAddresses);
  const bool is_global = std::any_of(addresses.begin(), addresses.end(),
                                     [](const auto& entry) { return !IsLinkLocal(entry.gid); });
  if (!is_global) addresses.clear();
  return addresses;
}

bool HostReachesOthersFrom(const Gid& gid) {
  const std::vector<HostAddress> all = AllAddresses();
  return std::any_of(all.begin(), all.end(), [&](const auto& entry) { return entry.gid == gid; });
}

ErrorOr<std::vector<HostAddress>> FindAddresses(const std::vector<Gid>& wanted) {
  const std::vector<Listed> listed = ListAddresses();
  std::vector<HostAddress> addresses;
  for (const Gid& gid : wanted) {
    auto entry = std::find_if(listed.begin(), listed.end(), [&](const Listed& candidate) {
      return candidate.address.gid == gid;
    });
    // All of 127.0.0.0/8 belongs to the host, but only one of these addresses is listed.
    const bool is_loopback = gid.IsIpv4Mapped() && gid.bytes[12] == 127;
    if (entry == listed.end() && is_loopback) {
      entry = std::find_if(listed.begin(), listed.end(),
                           [](const Listed& candidate) { return candidate.is_loopback; });
    }
    if (entry == listed.end()) {
      return Error{
          AddressText(gid) +
          " is not an address of this host that is up: choose one that 'ip address' lists"};
    }
    addresses.push_back({gid, entry->address.interface_index, entry->address.mtu_bytes});
  }
  return addresses;
}

std::vector<HostAddress> AddressesAmong(std::span<const Gid> gids) {
  const std::vector<Listed> listed = ListAddresses();
  std::vector<HostAddress> addresses;
  for (const Gid& gid : gids) {
    const auto entry = std::find_if(listed.begin(), listed.end(), [&](const Listed& candidate) {
      return candidate.address.gid == gid;
    });
    if (entry != listed.end()) addresses.push_back(entry->address);
  }
  return addresses;
}

transport::MacAddress MacOf(const std::vector<HostAddress>& addresses) {
  const Gid& first = addresses[0].gid;
  const transport::MacAddress mac = MacAddressFor(first);
  const bool has_more = IsLinkLocal(first) && addresses.size() > 1;
  return has_more && Gid::LinkLocal(mac) != first ? MacAddressFor(addresses[1].gid) : mac;
}

std::vector<Gid> GidsOf(const std::vector<HostAddress>& addresses) {
  std::vector<Gid> gids;
  if (!IsLinkLocal(addresses[0].gid)) gids.push_back(Gid::LinkLocal(MacOf(addresses)));
  for (const HostAddress& address : addresses) gids.push_back(address.gid);
  return gids;
}

bool IsWildcard(const Gid& gid) { return gid.IsZero() || gid == Gid::FromIpv4({}); }

bool IsLinkLocal(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

bool IsGroupOfThisHost(const Gid& gid) { return gid.bytes[0] == 0xff && (gid.bytes[1] & 0xf) < 2; }

std::string AddressText(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text;
  const bool v4 = gid.IsIpv4Mapped();
  return inet_ntop(v4 ? AF_INET : AF_INET6, gid.bytes.data() + (v4 ? 12 : 0), text.data(),
                   text.size());
}

SocketAddress SocketAddress::Make(const Gid& gid, uint16_t port, int interface_index) {
  SocketAddress address;
  if (gid.IsIpv4Mapped()) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, gid.bytes.data() + 12, sizeof v4->sin_addr);
    address.bytes = sizeof *v4;
    return address;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  std::memcpy(&v6->sin6_addr, gid.bytes.data(), sizeof v6->sin6_addr);
  const bool is_link_local_group = gid.bytes[0] == 0xff && (gid.bytes[1] & 0xf) == 2;
  if (IsLinkLocal(gid) || is_link_local_group)
    v6->sin6_scope_id = static_cast<uint32_t>(interface_index);
  address.bytes = sizeof *v6;
  return address;
}

Gid GidOf(const sockaddr_storage& address) {
  Gid gid;
  if (address.ss_family == AF_INET) {
    gid = Gid::FromIpv4({});
    std::memcpy(gid.bytes.data() + 12, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    std::memcpy(gid.bytes.data(), &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, 16);
  }
  return gid;
}

uint16_t PortOf(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

}  // namespace uroce::nic
