#include "dpdk_nic/link_layer/local_gids.h"

#include <algorithm>

namespace uroce::nic {
namespace {

using transport::Gid;

bool Has(std::span<const Gid> gids, const Gid& gid) {
  return std::find(gids.begin(), gids.end(), gid) != gids.end();
}

}  // namespace

bool LocalGids::Follow(std::span<const Gid> now) {
  bool has_changed = false;
  for (size_t i = 1; i < gids_.size(); ++i) {
    if (gids_[i].IsZero() || Has(now, gids_[i])) continue;
    gids_[i] = {};
    has_changed = true;
  }
  for (const Gid& gid : now) {
    if (!gid.IsZero() && !Has(gids_, gid)) has_changed |= Add(gid);
  }
  return has_changed;
}

bool LocalGids::Add(const Gid& gid) {
  // An entry that had this address last is free: the address is not in the table.
  size_t entry = static_cast<size_t>(std::find(last_.begin(), last_.end(), gid) - last_.begin());
  if (entry == kEntries) {
    entry = static_cast<size_t>(std::find(gids_.begin(), gids_.end(), Gid{}) - gids_.begin());
    if (entry == kEntries) return false;
  }
  if (entry == gids_.size()) {
    gids_.emplace_back();
    last_.emplace_back();
  }
  gids_[entry] = last_[entry] = gid;
  return true;
}

}  // namespace uroce::nic
