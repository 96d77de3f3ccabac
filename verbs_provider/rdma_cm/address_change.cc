// What ids hear when addresses of the device go: cma_netdev_callback of Linux.
#include <algorithm>
#include <vector>

#include "verbs_provider/rdma_cm/agent.h"

namespace uroce::verbs::rdma_cm {
namespace {

bool Has(const std::vector<transport::Gid>& gids, const transport::Gid& gid) {
  return std::find(gids.begin(), gids.end(), gid) != gids.end();
}

}  // namespace

// In Linux the Ethernet address below an id has changed then. Here an id stands on its GID alone.
// One that goes and is back before the table is looked at has not changed.
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
