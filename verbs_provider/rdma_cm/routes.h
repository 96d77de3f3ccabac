#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "dpdk_nic/port/udp/kernel_route.h"
#include "transport/ids.h"
#include "verbs_provider/rdma_cm/device_access.h"
#include "verbs_provider/rdma_cm/socket_address.h"

namespace uroce::verbs::rdma_cm {

// The IP addresses of this host's interfaces, as GIDs, and the interface that has each.
std::map<transport::Gid, std::string> HostInterfaces();

// The part of this host that routes depend on.
struct HostFacts {
  std::set<transport::Gid> addresses{};  // of all interfaces
  // Those of loopback interfaces.
  std::set<transport::Gid> loopback_addresses{};
  // The route of the host's kernel: nic::FindKernelRoute.
  std::function<nic::KernelRoute(const nic::RouteQuestion&)> kernel_route{};

  // Reads the addresses anew.
  void ReadAddresses();
};

// The GIDs of the path to an address, and the source address.
struct Route {
  uint8_t source_gid_index = 0;
  transport::Gid source_gid{};
  transport::Gid destination_gid{};
  SocketAddress source{};  // without a port
  // Whether packets take the kernel's route to `destination_gid`, and not one to this host.
  bool is_kernels = false;

  nic::RouteQuestion question() const {
    return {.destination = destination_gid,
            .source = source_gid,
            .interface_index = static_cast<int>(source.scope_id)};
  }
};

// How `destination` is reached from `source`, which may be a wildcard. Returns 0 or an errno value:
// ENETUNREACH if no GID of ours is of the IP version of the destination; the kernel's, if it has no
// route.
//
// An address of this host is reached by a GID of ours. To others the kernel's route decides, if the
// device has addresses of the host. In a fabric without a NIC a process may have an address of its
// own; all others have the default one, 127.0.0.1.
int FindRoute(const DeviceFacts& device, const HostFacts& host, const SocketAddress& source,
              const SocketAddress& destination, Route& route);

// Where requests for an address that an id is bound to arrive: Service::address.
transport::Gid ServiceGid(const DeviceFacts& device, const std::set<transport::Gid>& host,
                          const SocketAddress& address);

// Whether an id gets its device by being bound to the address, which is no wildcard: an address of
// the loopback interface leaves the device open (cma_any_addr of Linux).
bool NamesDevice(const DeviceFacts& device, const SocketAddress& address);

// Whether an id may be bound to the address: 0 or an errno value. EADDRNOTAVAIL (ENODEV for AF_IB):
// it is none of this host's. ENODEV: it is, but the device, which has others of them, lacks it, so
// that no peer arrives there (cma_acquire_dev_by_src_ip of Linux).
int CheckLocal(const DeviceFacts& device, const HostFacts& host, const SocketAddress& address);

}  // namespace uroce::verbs::rdma_cm
