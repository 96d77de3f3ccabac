#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dpdk_nic/port/udp/kernel_route.h"
#include "transport/cm/connection_manager.h"
#include "transport/cm/identifiers.h"
#include "transport/ids.h"
#include "transport/qp_attributes.h"
#include "transport/random_numbers.h"
#include "transport/time.h"

namespace uroce::verbs::rdma_cm {

// A service that this process reserves in the fabric: nic::PacketPort::Service.
struct Service {
  transport::cm::ServiceId id;
  transport::Gid address{};  // zero: all addresses; ::ffff:0.0.0.0: all IPv4 addresses
  bool only_ipv6 = false;    // all addresses of IPv6
  bool shares = false;       // other processes may reserve it too, if all say so
  bool listens = false;      // requests come to this process from now on

  bool operator==(const Service&) const = default;
};

// Facts about a device that is open.
struct DeviceFacts {
  std::vector<transport::Gid> gids;  // zero: a free entry
  bool has_wire = false;             // else all peers are processes of this host
  uint64_t node_guid = 0;            // byte order of the host
  transport::Mtu mtu = transport::Mtu::k1024;
  transport::Seed seed{};
};

// The open device that the ids use; tests have one of their own.
class DeviceAccess {
 public:
  virtual ~DeviceAccess() = default;

  // Whether the device is gone for good (IBV_EVENT_DEVICE_FATAL).
  virtual bool has_failed() = 0;
  // The present facts, valid until the next call: the addresses come and go.
  virtual const DeviceFacts& facts() = 0;
  // The route of the host's kernel.
  virtual nic::KernelRoute FindRoute(const nic::RouteQuestion& question) = 0;
  virtual uint8_t HopLimit(const nic::RouteQuestion& question) = 0;
  // Whether packets can leave by the kernel's route now, or for a host that the device reaches
  // without the kernel. If not, the neighbor is asked for: then call Agent::ServeResolutions when
  // there is news of neighbors.
  virtual bool KnowsNextHop(const nic::RouteQuestion& question) = 0;
  virtual bool KnowsNeighbor(const transport::Gid& destination) = 0;
  // Says that an address of this host is not in the GID table, and what to do.
  virtual void ExplainMissingGid(const transport::Gid& address) = 0;
  // Runs `use` under the engine's lock, then sends what became ready.
  using Use = std::function<void(transport::cm::ConnectionManager&, transport::Time)>;
  virtual void WithConnectionManager(const Use& use) = 0;
  // Reserves a service for this process; called again, changes `shares`. Blocks for a moment. 0, or
  // an errno value: EADDRINUSE when another process has the service.
  virtual int ReserveService(const Service& service) = 0;
  virtual void ReleaseService(const Service& service) = 0;
};

}  // namespace uroce::verbs::rdma_cm
