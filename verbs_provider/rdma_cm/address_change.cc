// Tells ids which addresses of the device have disappeared: cma_netdev_callback of Linux.
#include <algorithm>
#include <vector>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {
namespace {

bool Has(const std::vector<transport::Gid>& gids, const transport::Gid& gid) {
  return std::find(gids.begin(), gids.end(), gid) != gids.end();
}

}  // namespace

// Linux tells ids of a changed Ethernet address. Here an id depends on its GID alone. A GID that
// disappears and returns between two calls has not changed.
void Agent::TellAddressChanges() {
  const std::vector<transport::Gid>& gids = device_->facts().gids;
  if (gids == known_gids_) return;
  ids_.ForEach([&](Id& id) {
    if (!id.has_device || id.state == IdState::kDeviceRemoved) return;
    const transport::Gid& own = id.own_gid();
    if (Has(known_gids_, own) && !Has(gids, own)) Tell(id, UserEvent::kAddressChange);
  });
  known_gids_ = gids;
}

}  // namespace uroce::verbs::rdma_cm
