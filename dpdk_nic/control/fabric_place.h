#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dpdk_nic/base/unique_fd.h"

// Fabrics have places in the file system: folders that only their owner can write to, so that no
// other user can take a name.
//
//   <place>/<fabric>.<network namespace>.v<protocol>/   one folder a fabric
//       lock       locked by the uroced that serves it
//       socket     its control socket
//       <block>    locked by the process that has the block; see BlockClaims
//
// The place of root's fabrics is /run/uroce. Another user's is $XDG_RUNTIME_DIR/uroce,
// /run/user/UID/uroce, /tmp/uroce-UID or /dev/shm/uroce-UID, whichever comes first that can be made
// and whose parent is the user's alone (or is /tmp or /dev/shm). Root has the latter two where /run
// is read-only. Root of a user namespace counts as the user that made the namespace, unless the
// host's root did.

namespace uroce::nic::control {

inline constexpr char kLockName[] = "lock";
inline constexpr char kSocketName[] = "socket";

struct FabricPlace {
  std::string folder;
  uid_t owner;  // of the folder and of every uroced in it, as this process sees the uid
  mode_t mode;  // 0755 if other users are to connect, else 0700
};

// The places where this user's uroced may have its fabrics; it takes the first that can be made.
std::vector<FabricPlace> PlacesToServe();
// The places where this process looks for a fabric: this user's, then root's.
std::vector<FabricPlace> PlacesToLook();

// Opens the folder. Invalid with errno: ENOENT if it is not there, EPERM if it is not a folder that
// the owner alone can write to.
UniqueFd OpenPlace(const FabricPlace& place);
// The same, but makes the folder if it is not there.
UniqueFd MakePlace(const FabricPlace& place);

struct OpenedPlace {
  FabricPlace place;
  UniqueFd folder;
};
// The first of PlacesToServe() that can be made. nullopt with the errno of the first.
std::optional<OpenedPlace> MakePlaceToServe();

// 1 to kMaxNameBytes letters, digits, dots, dashes and underscores. Functions that take a fabric
// fail with EINVAL for any other.
bool IsFabricName(std::string_view fabric);

// The name of a fabric's folder in its place. Network namespaces that share a file system have
// folders of their own, and so have builds that would not understand each other. Empty with errno:
// EINVAL unless `fabric` is a fabric's name, EMFILE.
std::string FolderNameOf(std::string_view fabric);

}  // namespace uroce::nic::control
