#include "verbs_provider/path_check.h"

#include <cerrno>

#include "verbs_provider/translate.h"

namespace uroce::verbs {

int CheckPath(const Device& device, const ibv_ah_attr& attr) {
  if (attr.port_num != kPortNumber || attr.is_global == 0) return EINVAL;
  const auto& gids = device.gids();
  if (attr.grh.sgid_index >= gids.size()) return EINVAL;
  const transport::Gid destination = ToAddressVector(attr).destination_gid;
  if (destination.IsZero()) return EINVAL;
  const bool same_version = destination.IsIpv4Mapped() == gids[attr.grh.sgid_index].IsIpv4Mapped();
  return same_version ? 0 : EINVAL;
}

}  // namespace uroce::verbs
