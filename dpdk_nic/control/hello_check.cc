#include "dpdk_nic/control/hello_check.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dpdk_nic/base/mtu.h"

namespace uroce::nic::control {
namespace {

std::optional<Refusal> WhyNotMtu(uint32_t mtu_bytes, const FabricDescription& fabric) {
  const bool is_bounded = fabric.has_wire && !fabric.is_uplink;
  const uint32_t most = is_bounded ? fabric.mtu_bytes : kMaxMtuBytes;
  if (mtu_bytes >= kMinMtuBytes && mtu_bytes <= most) return std::nullopt;
  return Refusal{EMSGSIZE, "an MTU of " + std::to_string(mtu_bytes) +
                               " does not fit this fabric: choose one from " +
                               std::to_string(kMinMtuBytes) + " to " + std::to_string(most) +
                               ", or none"};
}

}  // namespace

bool KeepsItsSize(int memory) {
  const int seals = fcntl(memory, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

std::optional<Refusal> WhyNotToAttach(const Hello& hello, int published_state,
                                      const FabricDescription& fabric) {
  if (!KeepsItsSize(published_state)) {
    return Refusal{EPROTO,
                   "the process offers no sealed memory with its state: start it with the 'uroce' "
                   "of the same build as uroced"};
  }
  if (hello.mtu_bytes != 0) {
    if (auto refusal = WhyNotMtu(hello.mtu_bytes, fabric)) return refusal;
  }
  if (!fabric.has_wire || hello.ip.IsZero()) return std::nullopt;
  if (std::find(fabric.gids.begin(), fabric.gids.end(), hello.ip) != fabric.gids.end()) {
    return std::nullopt;
  }
  return Refusal{EADDRNOTAVAIL,
                 "the NIC of this fabric does not have the address that was asked for: choose one "
                 "that 'uroce status' shows, or none, or a fabric of another name with --fabric"};
}

std::optional<Refusal> WhyNotTheUplink(const LeaseRequest& wish, const FabricDescription& fabric) {
  constexpr char kAdvice[] =
      ": choose a fabric of another name with --fabric, or end the programs of this one first";
  switch (wish.uplink) {
    case UplinkWish::kAny:
      return std::nullopt;
    case UplinkWish::kNone:
      if (!fabric.has_wire) return std::nullopt;
      return Refusal{EADDRNOTAVAIL, std::string("this fabric has an uplink") + kAdvice};
    case UplinkWish::kUdp:
      break;
    default:
      return Refusal{EPROTO,
                     "there is no such uplink: use the 'uroce' of the same build as uroced"};
  }
  if (!fabric.port.starts_with("udp")) {
    return Refusal{EADDRNOTAVAIL,
                   std::string("this fabric has no uplink of UDP sockets") + kAdvice};
  }
  const bool has_address =
      std::find(fabric.gids.begin(), fabric.gids.end(), wish.address) != fabric.gids.end();
  if (wish.address.IsZero() || has_address) return std::nullopt;
  return Refusal{EADDRNOTAVAIL,
                 std::string("the uplink of this fabric does not have that address") + kAdvice};
}

std::string WhyNotAdmitted(ErrnoValue error) {
  switch (error) {
    case EDQUOT:
      return "this user has as many processes on the fabric as one may have: end some first";
    case ENOSPC:
      return "all blocks of queue pair numbers are in use or were a moment ago: try again in a "
             "minute";
    case ESTALE:
      return "the queue pair numbers of this process are another's now: end it and start it again";
    case EMFILE:
    case ENFILE:
      return "uroced has as many files open as it may have: start it with a higher limit of open "
             "files";
    default:
      return std::string("uroced cannot keep the queue pair numbers of this process (") +
             strerror(error) + "): see its folder in /run/uroce, $XDG_RUNTIME_DIR or /tmp";
  }
}

std::string WhyNoLease(ErrnoValue error) {
  switch (error) {
    case EDQUOT:
      return "this user has started as many programs on the fabric as one may: end some first";
    case ESRCH:
      return "uroced cannot see this process, which is in another process namespace: use Linux 6.5 "
             "or newer, or start 'uroced' beside it by hand";
    case ENOSYS:
    case EPERM:
      return std::string("uroced cannot watch this process (pidfd_open: ") + strerror(error) +
             "): use Linux 5.3 or newer, and allow pidfd_open in the container's seccomp profile";
    default:
      return std::string("uroced cannot watch this process (") + strerror(error) +
             "): allow it more open files";
  }
}

}  // namespace uroce::nic::control
