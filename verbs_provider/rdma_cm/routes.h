#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "transport/ids.h"
#include "verbs_provider/rdma_cm/device_access.h"
#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {

// The IP addresses of this host's interfaces, as GIDs, and the interface that has each.
std::map<transport::Gid, std::string> HostInterfaces();
std::set<transport::Gid> HostAddresses();

// The GIDs of the path to an address, and the source address.
struct Route {
  uint8_t source_gid_index = 0;
  transport::Gid source_gid{};
  transport::Gid destination_gid{};
  SocketAddress source{};  // without a port
};

// How `destination` is reached from `source`, which may be a wildcard. An address of this host is
// reached by a GID of ours. nullopt: no GID of ours is of the IP version of the destination.
//
// In a fabric without a NIC a process may have an address of its own; all others have the default
// one, 127.0.0.1.
std::optional<Route> FindRoute(const DeviceFacts& device, const std::set<transport::Gid>& host,
                               const SocketAddress& source, const SocketAddress& destination);

// Where requests for an address that an id is bound to arrive: Service::address.
transport::Gid ServiceGid(const DeviceFacts& device, const std::set<transport::Gid>& host,
                          const SocketAddress& address);

// Whether an id gets its device by being bound to the address, which is no wildcard: an address of
// the loopback interface leaves the device open (cma_any_addr of Linux).
bool NamesDevice(const DeviceFacts& device, const SocketAddress& address);

// Whether an id may be bound to the address.
bool IsLocal(const DeviceFacts& device, const std::set<transport::Gid>& host,
             const SocketAddress& address);

}  // namespace uroce::verbs::rdma_cm
