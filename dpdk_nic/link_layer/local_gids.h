#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dpdk_nic/link_layer/local_address.h"
#include "transport/ids.h"

namespace uroce::nic {

// The GID table of a port whose addresses come and go. What stays keeps its index, and what comes
// back has the one it had: programs remember indices. A free entry is zero; it is another address's
// only if none is left that never had one. Entry 0 is that of the port's MAC and stays as it is.
class LocalGids {
 public:
  static constexpr size_t kEntries = kMaxLocalAddresses + 1;

  LocalGids() = default;
  explicit LocalGids(std::span<const transport::Gid> gids)
      : gids_(gids.begin(), gids.end()), last_(gids_) {}

  const std::vector<transport::Gid>& gids() const { return gids_; }

  // These are the addresses now; zero ones mean nothing, and what finds no room is left out.
  // Returns whether the table has changed.
  bool Follow(std::span<const transport::Gid> now);

 private:
  bool Add(const transport::Gid& gid);

  std::vector<transport::Gid> gids_;
  std::vector<transport::Gid> last_;  // what each entry had last
};

}  // namespace uroce::nic
