#include "dpdk_nic/control/block_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace uroce::nic::control {
namespace {

// The user of a claim file without a uid: no user can prove ownership, so only the lock counts.
constexpr uid_t kUnknownUser = static_cast<uid_t>(-1);

UniqueFd OpenClaim(int folder, Block block, int flags) {
  return UniqueFd(
      openat(folder, std::to_string(block).c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600));
}

uid_t UserOf(int claim) {
  uid_t user = kUnknownUser;
  return pread(claim, &user, sizeof user, 0) == sizeof user ? user : kUnknownUser;
}

// For a file of any kind: does not ask its file system (FUSE would ask another process).
bool StatusOf(int fd, struct statx* status) {
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE, status) == 0;
}

bool IsSameFile(int a, int b) {
  struct statx first {
  }, second{};
  return StatusOf(a, &first) && StatusOf(b, &second) && first.stx_ino == second.stx_ino &&
         first.stx_dev_major == second.stx_dev_major && first.stx_dev_minor == second.stx_dev_minor;
}

bool TryLock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

}  // namespace

std::optional<uid_t> BlockClaims::OwnerOf(Block block) const {
  const UniqueFd claim = OpenClaim(folder_, block, O_RDONLY);
  if (!claim && errno == ENOENT) return std::nullopt;
  if (!claim) return kUnknownUser;
  if (TryLock(claim.get())) return std::nullopt;
  return UserOf(claim.get());
}

UniqueFd BlockClaims::Give(Block block, uid_t user) const {
  if (OwnerOf(block)) {
    errno = EWOULDBLOCK;
    return {};
  }
  // A new file: processes that had the block before cannot affect it.
  unlinkat(folder_, std::to_string(block).c_str(), 0);
  const UniqueFd written = OpenClaim(folder_, block, O_RDWR | O_CREAT | O_EXCL);
  if (!written) return {};
  // The process gets a file that it cannot write to.
  UniqueFd claim = OpenClaim(folder_, block, O_RDONLY);
  if (!claim || !TryLock(claim.get())) return {};
  if (pwrite(written.get(), &user, sizeof user, 0) != sizeof user) return {};
  return claim;
}

bool BlockClaims::IsProvenBy(int claim, Block block, uid_t user) const {
  const UniqueFd file = OpenClaim(folder_, block, O_RDONLY);
  // `file` cannot be locked, so another open file has the lock; `claim` can, so it is that file.
  return file && IsSameFile(file.get(), claim) && !TryLock(file.get()) && TryLock(claim) &&
         UserOf(file.get()) == user;
}

void BlockClaims::RemoveUnused() const {
  for (Block block = kFirstBlock; block <= kLastBlock; ++block) {
    const UniqueFd claim = OpenClaim(folder_, block, O_RDONLY);
    if (claim && TryLock(claim.get())) {
      unlinkat(folder_, std::to_string(block).c_str(), 0);
    }
  }
}

}  // namespace uroce::nic::control
