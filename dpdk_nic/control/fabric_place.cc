#include "dpdk_nic/control/fabric_place.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <utility>

#include "dpdk_nic/control/messages.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

namespace uroce::nic::control {
namespace {

constexpr uid_t kRoot = 0;
constexpr mode_t kPrivate = 0700;
constexpr mode_t kShared = 0755;
constexpr char kSystemFolder[] = "/run/uroce";

// The owner of the file system's root: 0, or the uid that a user namespace shows for it.
uid_t OwnerOfRootFolder() {
  struct stat root {};
  return stat("/", &root) == 0 ? root.st_uid : kRoot;
}

// Our uid outside of this user namespace; the inner one without /proc.
uid_t OuterUid() {
  const uid_t own = geteuid();
  std::ifstream map("/proc/self/uid_map");
  uint64_t inside, outside, count;
  while (map >> inside >> outside >> count) {
    if (own >= inside && own - inside < count) return static_cast<uid_t>(outside + own - inside);
  }
  return own;
}

bool IsOursAlone(const std::string& folder) {
  struct stat status {};
  return stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

std::vector<FabricPlace> PrivatePlaces() {
  const std::string uid = std::to_string(OuterUid());
  std::vector<FabricPlace> places;
  const auto add = [&places](const std::string& parent) {
    if (IsOursAlone(parent)) places.push_back({parent + "/uroce", geteuid(), kPrivate});
  };
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') add(runtime);
  add("/run/user/" + uid);
  // Containers with a read-only root can write to /dev/shm.
  for (const std::string parent : {"/tmp", "/dev/shm"}) {
    places.push_back({parent + "/uroce-" + uid, geteuid(), kPrivate});
  }
  return places;
}

FabricPlace SystemPlace() { return {kSystemFolder, OwnerOfRootFolder(), kShared}; }

// The number of the network namespace, which no other of this boot has. nullopt with errno: EMFILE.
std::optional<uint64_t> NetworkNamespace() {
  // Needs no /proc; Linux 5.14.
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return std::nullopt;
  uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) == 0) return cookie;
  struct stat status {};
  return stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

UniqueFd Failed(UniqueFd fd, int error) {
  fd.reset();
  errno = error;
  return {};
}

}  // namespace

std::vector<FabricPlace> PlacesToServe() {
  std::vector<FabricPlace> places = PrivatePlaces();
  // Only real root: root of a user namespace sees another owner.
  if (geteuid() == kRoot && OwnerOfRootFolder() == kRoot) {
    places.insert(places.begin(), SystemPlace());
  }
  return places;
}

std::vector<FabricPlace> PlacesToLook() {
  std::vector<FabricPlace> places = PrivatePlaces();
  places.push_back(SystemPlace());
  return places;
}

UniqueFd OpenPlace(const FabricPlace& place) {
  UniqueFd fd(open(place.folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return Failed({}, errno == ENOTDIR || errno == ELOOP || errno == EACCES ? EPERM : errno);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return Failed(std::move(fd), errno);
  const mode_t foreign = status.st_mode & 0777 & ~place.mode;
  if (status.st_uid != place.owner || foreign != 0) return Failed(std::move(fd), EPERM);
  return fd;
}

UniqueFd MakePlace(const FabricPlace& place) {
  const bool is_new = mkdir(place.folder.c_str(), place.mode) == 0;
  if (!is_new && errno != EEXIST) return {};
  UniqueFd fd = OpenPlace(place);
  // Gives back the permissions that the umask took away: other users need them.
  if (fd && fchmod(fd.get(), place.mode) != 0) return Failed(std::move(fd), errno);
  return fd;
}

std::optional<OpenedPlace> MakePlaceToServe() {
  int first_error = 0;
  for (FabricPlace& place : PlacesToServe()) {
    UniqueFd folder = MakePlace(place);
    if (folder) return OpenedPlace{std::move(place), std::move(folder)};
    if (first_error == 0) first_error = errno;
  }
  errno = first_error;
  return std::nullopt;
}

bool IsFabricName(std::string_view fabric) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !fabric.empty() && fabric.size() <= kMaxNameBytes &&
         fabric.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::string FolderNameOf(std::string_view fabric) {
  if (!IsFabricName(fabric)) {
    errno = EINVAL;
    return {};
  }
  const auto network = NetworkNamespace();
  if (!network) return {};
  return std::string(fabric) + "." + std::to_string(*network) + ".v" +
         std::to_string(kProtocolVersion);
}

}  // namespace uroce::nic::control
