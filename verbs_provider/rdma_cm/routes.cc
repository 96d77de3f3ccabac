#include "verbs_provider/rdma_cm/routes.h"

#include <ifaddrs.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"

namespace uroce::verbs::rdma_cm {
namespace {

using transport::Gid;

constexpr const char* kLoopbackInterface = "lo";
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

bool IsLinkLocal(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

// Whether two addresses can be the ends of one path.
bool AreAlike(const Gid& one, const Gid& other) {
  return one.IsIpv4Mapped() == other.IsIpv4Mapped() && IsLinkLocal(one) == IsLinkLocal(other);
}

// The addresses of the device that packets to `destination` can be from.
struct Sources {
  bool any_of_host = false;  // the kernel has one of them
  bool all_of_host = true;
};

Sources SourcesOf(const DeviceFacts& device, const HostFacts& host, const Gid& destination) {
  Sources sources;
  for (const Gid& gid : device.gids) {
    if (gid.IsZero() || !AreAlike(gid, destination)) continue;
    const bool is_of_host = host.addresses.contains(gid);
    sources.any_of_host |= is_of_host;
    sources.all_of_host &= is_of_host;
  }
  return sources;
}

// The best source by the addresses alone.
std::optional<uint8_t> LikeliestSource(const DeviceFacts& device, const Gid& destination) {
  std::vector<nic::LocalAddress> addresses;
  for (const Gid& gid : device.gids) {
    if (!gid.IsZero()) addresses.push_back({.ip = gid});
  }
  const nic::LocalAddress* best = nic::SourceFor(addresses, destination);
  return best == nullptr ? std::nullopt : IndexOf(device, best->ip);
}

// The source that the kernel's route gives packets to `question.destination`, and whether there is
// such a route.
struct KernelAnswer {
  int error = 0;  // 0 or an errno value
  std::optional<uint8_t> source_index{};
};

// Asks the kernel about packets from `question.source`, or, if that is zero, from any address of
// the device: the kernel's own choice may be an address that the device does not have.
KernelAnswer AskKernel(const DeviceFacts& device, const HostFacts& host,
                       nic::RouteQuestion question) {
  const nic::KernelRoute route = host.kernel_route(question);
  const Gid& source = question.source.IsZero() ? route.source : question.source;
  const auto index = IndexOf(device, source);
  if (route.error != 0 || index) return {route.error, index};
  const auto likeliest = LikeliestSource(device, question.destination);
  if (!likeliest || route.source.IsZero()) return {0, likeliest};
  question.source = device.gids[*likeliest];
  return {host.kernel_route(question).error, likeliest};
}

// Sets the source GID of `route`, whose destination is known. 0 or an errno value.
int ChooseSource(const DeviceFacts& device, const HostFacts& host, const SocketAddress& source,
                 const SocketAddress& destination, Route& route) {
  const Gid& to = route.destination_gid;
  const bool is_chosen =
      IndexOf(device, source.gid).has_value() && source.gid.IsIpv4Mapped() == to.IsIpv4Mapped();
  const Gid chosen = is_chosen ? source.gid : Gid{};
  const auto own = IndexOf(device, to);
  const Sources sources = SourcesOf(device, host, to);
  const bool is_elsewhere = device.has_wire && destination.IsIp() && !own;
  // Without its interface a link-local address means nothing to the kernel.
  const bool is_known = !destination.IsLinkLocal() || destination.scope_id != 0;
  KernelAnswer answer;
  if (is_elsewhere && is_known && sources.any_of_host) {
    answer = AskKernel(device, host,
                       {.destination = to,
                        .source = chosen,
                        .interface_index = static_cast<int>(destination.scope_id)});
    // The kernel knows no way by addresses that it does not have, and a group needs no route.
    const bool is_final = sources.all_of_host && !to.IsMulticast();
    if (answer.error != 0 && is_final) return answer.error;
    route.is_kernels = answer.error == 0;
  }
  std::optional<uint8_t> index = route.is_kernels ? answer.source_index : IndexOf(device, chosen);
  if (!index) index = own ? own : LikeliestSource(device, to);
  if (!index) return ENETUNREACH;
  route.source_gid_index = *index;
  route.source_gid = device.gids[*index];
  return 0;
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

void HostFacts::ReadAddresses() {
  addresses.clear();
  loopback_addresses.clear();
  for (const auto& [gid, interface] : HostInterfaces()) {
    addresses.insert(gid);
    if (interface == kLoopbackInterface) loopback_addresses.insert(gid);
  }
}

int FindRoute(const DeviceFacts& device, const HostFacts& host, const SocketAddress& source,
              const SocketAddress& destination, Route& route) {
  route.destination_gid = DestinationGid(device, host.addresses, destination);
  if (const int error = ChooseSource(device, host, source, destination, route)) return error;
  route.source = SourceAddress(source, destination, route);
  return 0;
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

int CheckLocal(const DeviceFacts& device, const HostFacts& host, const SocketAddress& address) {
  if (IndexOf(device, address.gid)) return 0;
  if (!address.IsIp()) return ENODEV;
  if (address.IsLoopback() || host.loopback_addresses.contains(address.gid)) return 0;
  if (!host.addresses.contains(address.gid)) return EADDRNOTAVAIL;
  const bool lacks_it = device.has_wire && SourcesOf(device, host, address.gid).any_of_host;
  return lacks_it ? ENODEV : 0;
}

}  // namespace uroce::verbs::rdma_cm
