#include "verbs_provider/objects/path_check.h"

#include <atomic>
#include <cerrno>

#include "dpdk_nic/base/log.h"
#include "verbs_provider/base/translate.h"

namespace uroce::verbs {
namespace {

constexpr uint8_t kMaxServiceLevel = 15;  // 4 bits

// Logs once per process, as programs try one connection after the other.
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
  const transport::AddressVector address = AddressOf(device, attr);
  return address.destination_gid.IsZero() || device.SourceOf(address).IsZero() ? EINVAL : 0;
}

std::optional<transport::Gid> Ipv4GroupOf(const transport::Gid& group) {
  transport::Gid ipv4 = group;
  ipv4.bytes[0] = ipv4.bytes[1] = 0;
  const bool is_one = group.bytes[0] == 0xff && group.bytes[1] == 0x0e && ipv4.IsMulticast();
  return is_one ? std::optional(ipv4) : std::nullopt;
}

transport::AddressVector AddressOf(Device& device, const ibv_ah_attr& attr) {
  transport::AddressVector address = ToAddressVector(attr);
  const auto group = Ipv4GroupOf(address.destination_gid);
  if (!group) return address;
  transport::AddressVector by_ipv4 = address;
  by_ipv4.destination_gid = *group;
  return device.SourceOf(by_ipv4).IsZero() ? address : by_ipv4;
}

}  // namespace uroce::verbs
