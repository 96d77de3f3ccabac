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

int CheckPath(Device& device, const ibv_ah_attr& attr) {
  if (attr.port_num != kPortNumber || attr.sl > kMaxServiceLevel) return EINVAL;
  if (attr.is_global == 0) {
    LogThatRoceNeedsGrh();
    return EINVAL;
  }
  transport::AddressVector address;
  address.source_gid_index = attr.grh.sgid_index;
  address.destination_gid = ToGid(attr.grh.dgid);
  return address.destination_gid.IsZero() || device.SourceOf(address).IsZero() ? EINVAL : 0;
}

}  // namespace uroce::verbs
