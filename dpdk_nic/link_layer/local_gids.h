#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// The GID table of a port whose addresses come and go. An address keeps its index, and gets it
// again when it comes back: programs remember indices. A free entry is zero. An entry goes to
// another address only if none is left that never had one. Entry 0, that of the port's MAC, stays.
class LocalGids {
 public:
  static constexpr size_t kEntries = kMaxLocalAddresses + 1;

  LocalGids() = default;
  explicit LocalGids(std::span<const transport::Gid> gids)
      : gids_(gids.begin(), gids.end()), last_(gids_) {}

  const std::vector<transport::Gid>& gids() const { return gids_; }

  // `now`: the current addresses. Ignores zero ones, and leaves out those that find no room.
  // Returns whether the table has changed.
  bool Follow(std::span<const transport::Gid> now);

 private:
  bool Add(const transport::Gid& gid);

  std::vector<transport::Gid> gids_;
  std::vector<transport::Gid> last_;  // the last address of each entry
};

}  // namespace uroce::nic
