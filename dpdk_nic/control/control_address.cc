#include "dpdk_nic/control/control_address.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "dpdk_nic/base/clock.h"
#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/stale_folders.h"

namespace uroce::nic::control {
namespace {

// Connections that may wait to be accepted: as many as a uroced serves.
constexpr int kBacklog = 1'024;
// How often an ending uroced may remove the folder between two of our calls.
constexpr int kTries = 100;
// Another uroced checks in a moment whether the folder is stale, except on a busy machine.
constexpr transport::Duration kLookInterval = transport::Milliseconds(1);
constexpr transport::Duration kLookPatience = transport::Milliseconds(30'000);
constexpr mode_t kAllUsersConnect = 0666;

UniqueFd Failed(int error) {
  errno = error;
  return {};
}

// The address of the socket in `folder`, whose path is `path`. If the path is too long for an
// address, it goes by the descriptor of the folder.
struct SocketAddress {
  sockaddr_un address{};
  bool fits = true;

  SocketAddress(const std::string& path, int folder) {
    std::string name = path + "/" + kSocketName;
    if (name.size() >= sizeof address.sun_path) {
      name = "/proc/self/fd/" + std::to_string(folder) + "/" + kSocketName;
      fits = access("/proc/self/fd", X_OK) == 0;
    }
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

void Sleep(transport::Duration interval) {
  const timespec time{0, interval.ns};
  nanosleep(&time, nullptr);
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

UniqueFd OpenFolder(int place, const std::string& name) {
  return UniqueFd(openat(place, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

std::optional<PeerCredentials> PeerCredentialsOf(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return PeerCredentials{peer.pid, peer.uid, peer.gid};
}

std::optional<FabricListener> FabricListener::Open(std::string_view fabric) {
  const std::string name = FolderNameOf(fabric);
  if (name.empty()) return std::nullopt;
  auto made = MakePlaceToServe();
  if (!made) return std::nullopt;
  FabricListener listener(std::move(made->folder), name);
  if (!listener.Lock()) return std::nullopt;
  if (listener.Listen(made->place.folder + "/" + name, made->place.mode)) return listener;
  const int error = errno;
  listener.Close();
  errno = error;
  return std::nullopt;
}

FabricListener& FabricListener::operator=(FabricListener&& other) noexcept {
  if (this == &other) return *this;
  Close();
  place_ = std::move(other.place_);
  name_ = std::move(other.name_);
  folder_ = std::move(other.folder_);
  lock_ = std::move(other.lock_);
  socket_ = std::move(other.socket_);
  return *this;
}

// An ending uroced may remove the folder and the lock file meanwhile: the lock counts only if both
// still have their names.
bool FabricListener::Lock() {
  const transport::Time give_up = Now() + kLookPatience;
  for (int i = 0; i < kTries; ++i) {
    struct stat place {};
    if (fstat(place_.get(), &place) != 0) return false;
    const mode_t mode = place.st_mode & 0777;
    if (mkdirat(place_.get(), name_.c_str(), mode) != 0 && errno != EEXIST) return false;
    folder_ = OpenFolder(place_.get(), name_);
    if (!folder_ && errno == ENOENT) continue;
    if (!folder_ || fchmod(folder_.get(), mode) != 0) return false;
    UniqueFd lock(
        openat(folder_.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock && errno == ENOENT) continue;
    if (!lock) return false;
    const LockResult result = TryLockToServe(lock.get());
    if (result == LockResult::kLookedAt && Now() < give_up) {
      Sleep(kLookInterval);
      i = 0;
      continue;
    }
    if (result != LockResult::kLocked) {
      if (errno == EWOULDBLOCK) errno = EADDRINUSE;
      return false;
    }
    struct stat ours {
    }, named{}, folder{}, named_folder{};
    if (fstat(lock.get(), &ours) == 0 && fstat(folder_.get(), &folder) == 0 &&
        fstatat(folder_.get(), kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstatat(place_.get(), name_.c_str(), &named_folder, AT_SYMLINK_NOFOLLOW) == 0 &&
        IsSameFile(ours, named) && IsSameFile(folder, named_folder)) {
      lock_ = std::move(lock);
      return true;
    }
  }
  errno = EADDRINUSE;
  return false;
}

bool FabricListener::Listen(const std::string& path, mode_t mode) {
  const SocketAddress address(path, folder_.get());
  if (!address.fits) {
    errno = ENAMETOOLONG;
    return false;
  }
  unlinkat(folder_.get(), kSocketName, 0);  // of a uroced that was killed
  socket_ = NewSocket();
  if (!socket_ || bind(socket_.get(), address.get(), sizeof address.address) != 0) return false;
  if ((mode & S_IRWXO) != 0 && fchmodat(folder_.get(), kSocketName, kAllUsersConnect, 0) != 0) {
    return false;
  }
  return listen(socket_.get(), kBacklog) == 0;
}

void FabricListener::Close() {
  socket_.reset();
  if (!lock_) return;
  unlinkat(folder_.get(), kSocketName, 0);
  // A folder in which processes hold claims stays, for the uroced that comes next.
  BlockClaims(folder_.get()).RemoveUnused();
  unlinkat(folder_.get(), kLockName, 0);
  unlinkat(place_.get(), name_.c_str(), AT_REMOVEDIR);
  // Not left to close(): a forked child may still hold the descriptor.
  flock(lock_.get(), LOCK_UN);
  lock_.reset();
  folder_.reset();
  RemoveStaleFolders(place_.get());
  place_.reset();
}

UniqueFd ConnectToFabricAt(const FabricPlace& place, std::string_view fabric) {
  const std::string name = FolderNameOf(fabric);
  if (name.empty()) return {};
  const UniqueFd parent = OpenPlace(place);
  if (!parent) return Failed(errno == ENOENT ? ECONNREFUSED : errno);
  const UniqueFd folder = OpenFolder(parent.get(), name);
  if (!folder) return Failed(errno == ENOENT ? ECONNREFUSED : errno);
  const SocketAddress address(place.folder + "/" + name, folder.get());
  if (!address.fits) return Failed(ENAMETOOLONG);
  UniqueFd socket = NewSocket();
  if (!socket) return {};
  if (connect(socket.get(), address.get(), sizeof address.address) != 0) {
    return Failed(errno == ENOENT ? ECONNREFUSED : errno);
  }
  const auto peer = PeerCredentialsOf(socket.get());
  return peer && peer->uid == place.owner ? std::move(socket) : Failed(EPERM);
}

std::optional<FabricConnection> ConnectToFabric(std::string_view fabric) {
  bool has_place = false;
  for (const FabricPlace& place : PlacesToLook()) {
    UniqueFd socket = ConnectToFabricAt(place, fabric);
    if (socket) return FabricConnection{std::move(socket), place};
    // A place of ours that another user took must not keep us from root's.
    if (errno != ECONNREFUSED && errno != EPERM) return std::nullopt;
    if (errno == ECONNREFUSED && place.owner == geteuid()) has_place = true;
  }
  errno = has_place ? ECONNREFUSED : EPERM;
  return std::nullopt;
}

std::optional<FabricConnection> ConnectToFabricWithRetry(std::string_view fabric) {
  const transport::Time give_up = Now() + kQueueTimeout;
  while (true) {
    auto connection = ConnectToFabric(fabric);
    if (connection || errno != EAGAIN || Now() >= give_up) return connection;
    Sleep(kQueueRetryInterval);
    errno = EAGAIN;
  }
}

std::string WhyNotConnected(std::string_view fabric, int error) {
  const std::string name = "fabric '" + std::string(fabric) + "'";
  switch (error) {
    case ECONNREFUSED:
      return "no uroced serves the " + name +
             ": start the program with 'uroce run', or start uroced";
    case EAGAIN:
      return "the uroced of " + name + " has been too busy to answer: try again";
    case EMFILE:
    case ENFILE:
      return "this process has as many open files as it may have: allow it more, as with "
             "'ulimit -n 1024'";
    case EPERM:
      return "another user owns " + PlacesToServe().back().folder +
             ": set XDG_RUNTIME_DIR to a folder that is yours alone (mode 0700)";
    case EROFS:
      return "there is no folder for the " + name +
             " (Read-only file system): set XDG_RUNTIME_DIR to a folder that is yours alone (mode "
             "0700), or mount a tmpfs on /tmp";
    case ENAMETOOLONG:
      return "the path of " + name +
             " is too long for a socket: set XDG_RUNTIME_DIR to a shorter one, or mount /proc";
    default:
      return name + " cannot be reached (" + std::strerror(error) +
             "): allow this user to open sockets in " + PlacesToServe().front().folder;
  }
}

UniqueFd OpenFolderOf(std::string_view fabric) {
  const std::string name = FolderNameOf(fabric);
  for (const FabricPlace& place : PlacesToLook()) {
    const UniqueFd parent = OpenPlace(place);
    if (!parent) continue;
    UniqueFd folder = OpenFolder(parent.get(), name);
    if (folder) return folder;
  }
  return {};
}

}  // namespace uroce::nic::control
