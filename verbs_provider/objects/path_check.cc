#include "verbs_provider/objects/path_check.h"

#include <atomic>
#include <cerrno>

#include "dpdk_nic/base/log.h"
#include "verbs_provider/base/translate.h"

namespace uroce::verbs {
namespace {

constexpr uint8_t kMaxServiceLevel = 15;  // 4 bits

// Once a process, as programs try one connection after the other.
void LogThatRoceNeedsGrh() {
  static std::atomic_flag logged = ATOMIC_FLAG_INIT;
  if (logged.test_and_set()) return;
  nic::Log(nic::LogLevel::kWarning,
           "an address without a global route (ah_attr.is_global = 0) is refused with "
           "EINVAL: RoCE has no other route. Set is_global = 1, grh.dgid to the peer's GID and "
           "grh.sgid_index to one of ours (ibv_devinfo -v lists them)");
}

}  // namespace

int CheckPath(const Device& device, const ibv_ah_attr& attr) {
  if (attr.port_num != kPortNumber || attr.sl > kMaxServiceLevel) return EINVAL;
  if (attr.is_global == 0) {
    LogThatRoceNeedsGrh();
    return EINVAL;
  }
  const auto& gids = device.gids();
  if (attr.grh.sgid_index >= gids.size()) return EINVAL;
  const transport::Gid destination = ToGid(attr.grh.dgid);
  if (destination.IsZero()) return EINVAL;
  const bool same_version = destination.IsIpv4Mapped() == gids[attr.grh.sgid_index].IsIpv4Mapped();
  return same_version ? 0 : EINVAL;
}

}  // namespace uroce::verbs
