#include "verbs_provider/objects/path_check.h"

#include <cerrno>

#include "verbs_provider/base/translate.h"

namespace uroce::verbs {
namespace {

constexpr uint32_t kMaxFlowLabel = 0xf'ffff;  // 20 bits of the IPv6 header

}  // namespace

int CheckPath(const Device& device, const ibv_ah_attr& attr) {
  if (attr.port_num != kPortNumber || attr.is_global == 0) return EINVAL;
  const auto& gids = device.gids();
  if (attr.grh.sgid_index >= gids.size() || attr.grh.flow_label > kMaxFlowLabel) return EINVAL;
  const transport::Gid destination = ToGid(attr.grh.dgid);
  if (destination.IsZero()) return EINVAL;
  const bool same_version = destination.IsIpv4Mapped() == gids[attr.grh.sgid_index].IsIpv4Mapped();
  return same_version ? 0 : EINVAL;
}

}  // namespace uroce::verbs
