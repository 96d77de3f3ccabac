#pragma once

#include <optional>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// What the kernel knows of one of its network interfaces: the addresses it has there, the routes
// over it, the neighbours on it. No call waits for anything.
class KernelTables {
 public:
  virtual ~KernelTables() = default;

  virtual std::vector<LocalAddress> Addresses() = 0;

  // The neighbour through which `destination` is reached over the interface: itself, or a gateway.
  // Destinations that there is no route to are taken to be on the link.
  virtual transport::Gid NextHop(const transport::Gid& destination) = 0;

  struct Neighbor {
    std::optional<transport::MacAddress> mac;  // unless it has to be asked for, or does not answer
    bool is_confirmed = false;                 // heard of lately, or entered by an administrator
  };
  virtual Neighbor Find(const transport::Gid& neighbor) = 0;

  // Has the kernel ask for a neighbour, or make sure that it is still there.
  virtual void Ask(const transport::Gid& neighbor) = 0;

  struct Change {
    enum class Kind {
      kNeighbor,   // `neighbor` is `state` now
      kAddresses,  // the interface has another address, or one less
      kGap,        // anything may have changed
    } kind;
    transport::Gid neighbor;
    Neighbor state;
  };
  // What changed since it was last asked, one by one.
  virtual std::optional<Change> NextChange() = 0;
};

}  // namespace uroce::nic
