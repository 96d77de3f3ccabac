#include "dpdk_nic/control/stale_folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "dpdk_nic/control/block_claim.h"
#include "dpdk_nic/control/fabric_place.h"

namespace uroce::nic::control {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

// Folders of `place` that have not changed for long, kStaleFoldersAtOnce at the most.
std::vector<std::string> OldFolders(int place) {
  std::vector<std::string> names;
  const int listed = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (listed < 0) return names;
  const std::unique_ptr<DIR, CloseFolder> folder(fdopendir(listed));
  if (folder == nullptr) {
    close(listed);
    return names;
  }
  const time_t newest = time(nullptr) - kStaleFolderAge.ns / 1'000'000'000;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    struct stat status {};
    if (name == "." || name == ".." ||
        fstatat(place, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (S_ISDIR(status.st_mode) && status.st_mtime < newest) names.push_back(name);
    if (names.size() == kStaleFoldersAtOnce) break;
  }
  return names;
}

// While we have the lock no process serves the fabric; a uroced that is about to tries again.
void RemoveUnlessServed(int place, const std::string& name) {
  const UniqueFd folder(
      openat(place, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return;
  const UniqueFd lock(
      openat(folder.get(), kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock || flock(lock.get(), LOCK_SH | LOCK_NB) != 0) return;
  unlinkat(folder.get(), kSocketName, 0);
  BlockClaims(folder.get()).RemoveUnused();
  unlinkat(folder.get(), kLockName, 0);
  unlinkat(place, name.c_str(), AT_REMOVEDIR);
}

}  // namespace

void RemoveStaleFolders(int place) {
  for (const std::string& name : OldFolders(place)) RemoveUnlessServed(place, name);
}

LockResult TryLockToServe(int lock) {
  if (flock(lock, LOCK_EX | LOCK_NB) == 0) return LockResult::kLocked;
  if (flock(lock, LOCK_SH | LOCK_NB) != 0) return LockResult::kServed;
  flock(lock, LOCK_UN);
  return LockResult::kLookedAt;
}

}  // namespace uroce::nic::control
