#pragma once

#include <optional>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// The kernel's addresses, routes and neighbours of one network interface. No call blocks.
class KernelTables {
 public:
  virtual ~KernelTables() = default;

  virtual std::vector<LocalAddress> Addresses() = 0;

  // The neighbour through which `destination` is reached over the interface: itself, or a gateway.
  // A destination without a route is taken to be on the link.
  virtual transport::Gid NextHop(const transport::Gid& destination) = 0;

  struct Neighbor {
    std::optional<transport::MacAddress> mac;  // none: unknown, or it does not answer
    bool is_confirmed = false;                 // heard of lately, or entered by an administrator
  };
  virtual Neighbor Find(const transport::Gid& neighbor) = 0;

  // Has the kernel resolve a neighbour, or check that it is still there.
  virtual void Ask(const transport::Gid& neighbor) = 0;

  struct Change {
    enum class Kind {
      kNeighbor,   // `neighbor` has `state` now
      kAddresses,  // the interface has got or lost an address
      kGap,        // anything may have changed
    } kind;
    transport::Gid neighbor;
    Neighbor state;
  };
  // The next change since the last call; nullopt if there is none.
  virtual std::optional<Change> NextChange() = 0;
};

}  // namespace uroce::nic
