#include "dpdk_nic/control/control_address.h"

#include <unistd.h>

#include <cerrno>

namespace uroce::nic::control {
namespace {

// Processes that connect in the same moment and wait to be accepted: all that a uroced serves.
constexpr int kBacklog = 1'024;
constexpr uid_t kRoot = 0;

// Programs that would not understand each other never meet. Empty unless `fabric` is a fabric's
// name: a slash in it could make the name of another socket.
std::string SocketName(uid_t uid, std::string_view fabric) {
  if (!IsFabricName(fabric)) {
    errno = EINVAL;
    return {};
  }
  return "uroce-" + std::to_string(kProtocolVersion) + "/" + std::to_string(uid) + "/" +
         std::string(fabric);
}

}  // namespace

bool IsFabricName(std::string_view fabric) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !fabric.empty() && fabric.size() <= kMaxNameBytes &&
         fabric.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string BlockSocketName(uid_t daemon_uid, std::string_view fabric, Block block) {
  const std::string name = SocketName(daemon_uid, fabric);
  return name.empty() ? name : name + "/block/" + std::to_string(block);
}

UniqueFd ListenOnFabric(std::string_view fabric) {
  const std::string name = SocketName(geteuid(), fabric);
  return name.empty() ? UniqueFd() : ListenOnName(name, kBacklog);
}

UniqueFd ConnectToFabricOf(uid_t uid, std::string_view fabric) {
  const std::string name = SocketName(uid, fabric);
  if (name.empty()) return {};
  UniqueFd socket = ConnectToName(name);
  if (!socket) return {};
  const auto peer = PeerCredentialsOf(socket.get());
  if (peer && peer->uid == uid) return socket;
  socket.reset();
  errno = EPERM;
  return {};
}

std::optional<FabricConnection> ConnectToFabric(std::string_view fabric) {
  const uid_t own = geteuid();
  UniqueFd socket = ConnectToFabricOf(own, fabric);
  if (socket) return FabricConnection{std::move(socket), own};
  // Somebody else who holds our name must not keep us from root's.
  const int error = errno;
  if (own == kRoot || (error != ECONNREFUSED && error != EPERM)) return std::nullopt;
  socket = ConnectToFabricOf(kRoot, fabric);
  if (socket) return FabricConnection{std::move(socket), kRoot};
  if (errno == ECONNREFUSED) errno = error;
  return std::nullopt;
}

}  // namespace uroce::nic::control
