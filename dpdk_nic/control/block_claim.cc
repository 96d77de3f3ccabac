#include "dpdk_nic/control/block_claim.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "dpdk_nic/control/abstract_socket.h"
#include "dpdk_nic/control/control_address.h"

namespace uroce::nic::control {
namespace {

// Looks of a uroced that the process has not noticed yet: one each time that it is started.
constexpr int kBacklog = 64;

}  // namespace

std::optional<BlockClaim> BlockClaim::Take(uid_t daemon_uid, std::string_view fabric, Block block) {
  const std::string name = BlockSocketName(daemon_uid, fabric, block);
  if (name.empty()) return std::nullopt;
  UniqueFd listener = ListenOnName(name, kBacklog);
  if (!listener) return std::nullopt;
  return BlockClaim(std::move(listener), daemon_uid, block);
}

void BlockClaim::TurnAwayVisitors() {
  // Bounded, so that a stranger who connects without end gets no more than this.
  for (int i = 0; i < kBacklog; ++i) {
    if (!UniqueFd(accept4(fd(), nullptr, nullptr, SOCK_CLOEXEC))) return;
  }
}

pid_t HolderOfBlock(uid_t daemon_uid, std::string_view fabric, Block block) {
  const std::string name = BlockSocketName(daemon_uid, fabric, block);
  if (name.empty()) return kUnknownHolder;
  const UniqueFd socket = ConnectToName(name);
  if (!socket) return errno == ECONNREFUSED ? kNobody : kUnknownHolder;
  const auto peer = PeerCredentialsOf(socket.get());
  return peer && peer->pid > 0 ? peer->pid : kUnknownHolder;
}

}  // namespace uroce::nic::control
