#include "dpdk_nic/control/abstract_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace uroce::nic::control {
namespace {

struct Address {
  sockaddr_un address{};
  socklen_t length = 0;  // 0: the name is too long

  explicit Address(std::string_view name) {
    // The NUL that it begins with makes it an abstract one.
    if (name.size() + 1 > sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

// `action` makes something of a new socket and the address.
template <class Action>
UniqueFd NewSocket(std::string_view name, const Action& action) {
  const Address address(name);
  if (address.length == 0) {
    errno = ENAMETOOLONG;
    return {};
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || action(fd.get(), address)) return fd;
  const int error = errno;
  fd.reset();
  errno = error;
  return {};
}

}  // namespace

UniqueFd ListenOnName(std::string_view name, int backlog) {
  return NewSocket(name, [backlog](int fd, const Address& address) {
    return bind(fd, address.get(), address.length) == 0 && listen(fd, backlog) == 0;
  });
}

UniqueFd ConnectToName(std::string_view name) {
  return NewSocket(name, [](int fd, const Address& address) {
    return connect(fd, address.get(), address.length) == 0;
  });
}

std::optional<PeerCredentials> PeerCredentialsOf(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return PeerCredentials{peer.pid, peer.uid, peer.gid};
}

}  // namespace uroce::nic::control
