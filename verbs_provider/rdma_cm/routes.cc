#include "verbs_provider/rdma_cm/routes.h"

#include <ifaddrs.h>

#include <algorithm>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::Gid;

constexpr Gid kDefaultIp = Gid::FromIpv4({127, 0, 0, 1});

std::optional<uint8_t> IndexOf(const DeviceFacts& device, const Gid& gid) {
  const auto found = std::find(device.gids.begin(), device.gids.end(), gid);
  if (gid.IsZero() || found == device.gids.end()) return std::nullopt;
  return static_cast<uint8_t>(found - device.gids.begin());
}

// The GID by which the process, and those that share its addresses, are reached: one of the IP
// version of `like` if there is one, preferably not the link-local one at index 0.
Gid OwnGid(const DeviceFacts& device, const Gid& like) {
  for (size_t i = 1; i < device.gids.size(); ++i) {
    const Gid& gid = device.gids[i];
    if (!gid.IsZero() && gid.IsIpv4Mapped() == like.IsIpv4Mapped()) return gid;
  }
  return device.gids[0];
}

bool HasLoopbackAddress(const DeviceFacts& device) {
  return std::any_of(device.gids.begin(), device.gids.end(),
                     [](const Gid& gid) { return gid.IsIpv4Mapped() && gid.bytes[12] == 127; });
}

Gid DestinationGid(const DeviceFacts& device, const std::set<Gid>& host,
                   const SocketAddress& destination) {
  const Gid& gid = destination.gid;
  if (IndexOf(device, gid)) return gid;
  if (destination.IsAny()) return OwnGid(device, gid);
  if (!destination.IsIp()) return gid;
  const bool is_of_host = destination.IsLoopback() || host.contains(gid);
  if (!is_of_host) return gid;
  // Without a NIC, an address of the host may be that of another process; so may an address of the
  // loopback interface, where the device has such addresses.
  const bool is_default = gid == kDefaultIp || destination.family == AF_INET6;
  const bool may_be_anothers =
      !device.has_wire || (destination.IsLoopback() && HasLoopbackAddress(device));
  const bool is_another_process =
      may_be_anothers && !is_default && !IndexOf(device, kDefaultIp).has_value();
  return is_another_process ? gid : OwnGid(device, gid);
}

std::optional<uint8_t> SourceIndex(const DeviceFacts& device, const SocketAddress& source,
                                   const Gid& destination) {
  const auto chosen = IndexOf(device, source.gid);
  if (chosen && source.gid.IsIpv4Mapped() == destination.IsIpv4Mapped()) return chosen;
  if (const auto own = IndexOf(device, destination)) return own;
  std::vector<nic::LocalAddress> addresses;
  for (const Gid& gid : device.gids) {
    if (!gid.IsZero()) addresses.push_back({.ip = gid});
  }
  const nic::LocalAddress* best = nic::SourceFor(addresses, destination);
  return best == nullptr ? std::nullopt : IndexOf(device, best->ip);
}

SocketAddress SourceAddress(const SocketAddress& source, const SocketAddress& destination,
                            const Route& route) {
  if (!source.IsAny()) return source;
  SocketAddress chosen = AnyAddress(destination.family);
  const bool is_own = route.source_gid == route.destination_gid && !destination.IsAny();
  chosen.gid = is_own ? destination.gid : route.source_gid;
  // If that GID is of the other IP version, the requested address is as good as any.
  const bool fits = destination.family != AF_INET || chosen.gid.IsIpv4Mapped();
  if (!fits) chosen.gid = destination.gid;
  chosen.scope_id = destination.scope_id;
  chosen.pkey = 0xffff;
  return chosen;
}

}  // namespace

std::map<Gid, std::string> HostInterfaces() {
  std::map<Gid, std::string> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const sa_family_t family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(entry->ifa_addr);
    if (const auto address = ParseAddress({bytes, AddressBytes(family)})) {
      found.emplace(address->gid, entry->ifa_name);
    }
  }
  freeifaddrs(list);
  return found;
}

std::set<Gid> HostAddresses() {
  std::set<Gid> found;
  for (const auto& [gid, interface] : HostInterfaces()) found.insert(gid);
  return found;
}

std::optional<Route> FindRoute(const DeviceFacts& device, const std::set<Gid>& host,
                               const SocketAddress& source, const SocketAddress& destination) {
  Route route;
  route.destination_gid = DestinationGid(device, host, destination);
  const auto index = SourceIndex(device, source, route.destination_gid);
  if (!index) return std::nullopt;
  route.source_gid_index = *index;
  route.source_gid = device.gids[*index];
  route.source = SourceAddress(source, destination, route);
  return route;
}

Gid ServiceGid(const DeviceFacts& device, const std::set<Gid>& host, const SocketAddress& address) {
  if (!address.IsAny()) return DestinationGid(device, host, address);
  const bool has_ipv4 = std::any_of(device.gids.begin(), device.gids.end(),
                                    [](const Gid& gid) { return gid.IsIpv4Mapped(); });
  return address.family == AF_INET && has_ipv4 ? address.gid : Gid{};
}

bool NamesDevice(const DeviceFacts& device, const SocketAddress& address) {
  return !address.IsIp() || !address.IsLoopback() || IndexOf(device, address.gid).has_value();
}

bool IsLocal(const DeviceFacts& device, const std::set<Gid>& host, const SocketAddress& address) {
  if (IndexOf(device, address.gid)) return true;
  return address.IsIp() && (address.IsLoopback() || host.contains(address.gid));
}

}  // namespace uroce::verbs::rdma_cm
